// Runs the probe in its own process on Node, Bun and Deno.
import { createServer } from "node:http";
import { createWebhookHandler, memoryStore, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { sqliteStore } from "stayhook/sqlite";
import { type StoreContractCase, storeContract } from "stayhook/store/contract";
import { type ProbeOptions, probe } from "./probe.ts";

export interface ProcessOptions extends ProbeOptions {
  /** An empty directory for databases. Without it, the probe does not test the stores. */
  readonly directory?: string | undefined;
}

/** Serves a handler over node:http. The sandbox delivers three events, each twice, after the configuration is set. */
async function serve({ baseUrl, accessToken }: ProbeOptions) {
  const client = new StayhookClient({ baseUrl, accessToken });
  const calls: string[] = [];
  let duplicates = 0;
  let enough = () => {};
  const all = new Promise<void>((resolve) => {
    enough = resolve;
  });
  const webhooks = createWebhookHandler({
    client,
    store: memoryStore(),
    verify: sharedSecret({ query: "key", secret: "door" }),
    on: { fallback: ({ type }) => void calls.push(type) },
    observe: ({ kind }) => {
      if (kind === "duplicate") duplicates += 1;
      if (calls.length === 3 && duplicates === 3) enough();
    },
  });
  const server = createServer(toNodeHandler(webhooks));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as { port: number }).port}/hooks?key=door`;
  await client.webhookConfig.ensure({ endpoints: { bookings: url, listings: url } });
  console.log("serving");
  await all;
  const refused = await fetch(url.replace("door", "wall"), { method: "POST", body: "{}" });
  await webhooks.close();
  await new Promise((resolve) => server.close(resolve));
  return { calls: calls.sort(), duplicates, refused: refused.status };
}

/** Runs only a few cases at a time. Their timeouts are in real time, and other processes also use the CPU. */
async function contractOf(cases: readonly StoreContractCase[]) {
  const left = [...cases];
  const broken: string[] = [];
  const runner = async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) {
      const { name } = one;
      await one.run().catch((error) => broken.push(`${name}: ${error.message}`));
    }
  };
  await Promise.all(Array.from({ length: 30 }, runner));
  return { cases: cases.length, broken };
}

function sqliteContract(directory: string) {
  const paths = new Map<unknown, string>();
  const open = (path: string) => {
    const store = sqliteStore(path, { durability: "process-crash" });
    paths.set(store, path);
    return store;
  };
  return storeContract(() => open(`${directory}/${paths.size}.db`), {
    unit: 150,
    async reopen(store) {
      await store.close();
      return open(paths.get(store)!);
    },
    another: (store) => open(paths.get(store)!),
  });
}

/** Runs both contracts at once, because they wait most of the time. */
async function contracts(directory: string) {
  const [memory, sqlite] = await Promise.all([
    contractOf(storeContract(() => memoryStore(), { unit: 150 })),
    contractOf(sqliteContract(directory)),
  ]);
  return { memory, sqlite };
}

async function main(options: ProcessOptions) {
  const { directory } = options;
  return {
    probe: await probe(options),
    served: await serve(options),
    ...(directory !== undefined && (await contracts(directory))),
  };
}

// A handler does not keep its process alive, so this timer must do it.
const held = setInterval(() => {}, 60_000);
main(JSON.parse(process.argv[2]!))
  .then((results) => console.log(`\n${JSON.stringify(results)}`))
  .finally(() => clearInterval(held));
