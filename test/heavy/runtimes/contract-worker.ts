// Runs the store contract on the example's store inside workerd. `/cases` lists the cases, `/?case=<name>` runs one.
import { type StoreContractCase, storeContract } from "stayhook/store/contract";
import { durableObjectStore, Events } from "../../../examples/cloudflare-worker/durable-object-store.ts";

/** A Durable Object that a test can abort. */
export class TestEvents extends Events {
  end(): void {
    this.ctx.abort("ended by the test");
  }
}

interface Env {
  readonly EVENTS: DurableObjectNamespace<TestEvents>;
}

function casesOf({ EVENTS }: Env): readonly StoreContractCase[] {
  const names = new Map<unknown, string>();
  const open = (name: string) => {
    const store = durableObjectStore(EVENTS.getByName(name));
    names.set(store, name);
    return store;
  };
  return storeContract(() => open(crypto.randomUUID()), {
    unit: 150,
    async reopen(store) {
      const name = names.get(store)!;
      await EVENTS.getByName(name)
        .end()
        .catch(() => {});
      return open(name);
    },
    another: (store) => open(names.get(store)!),
  });
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const cases = casesOf(env);
    if (pathname === "/cases") return Response.json(cases.map(({ name }) => name));
    const found = cases.find(({ name }) => name === searchParams.get("case"));
    if (found === undefined) return new Response("no such case", { status: 404 });
    try {
      await found.run();
      return new Response("holds");
    } catch (error) {
      return new Response(String((error as Error).stack), { status: 500 });
    }
  },
};
