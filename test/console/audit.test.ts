import { type LogEntry, type Observation, StayhookClient, type WebhookHandlerOptions } from "stayhook";
import { describe, expect, test, vi } from "vitest";
import { operationText } from "../../src/console/operations.ts";
import { eventOf } from "../stores/event.ts";
import { eventually } from "../support/eventually.ts";
import { Browser, servedInboxOf } from "./support.ts";

type Operated = Extract<Observation, { kind: "operated" }>;

/** Serves a console whose users say their name in a header. The callback of each event throws. */
async function audited(options: Partial<WebhookHandlerOptions> = {}) {
  const operated: Operated[] = [];
  const lines: LogEntry[] = [];
  const made = await servedInboxOf(
    {
      on: {
        fallback: () => {
          throw new Error("no room for Ann Lee");
        },
      },
      maxAttempts: 1,
      observe: (event) => void (event.kind === "operated" && operated.push(event)),
      logger: (entry) => void (entry.level === "info" && lines.push(entry)),
      ...options,
    },
    {
      authorize: (request) => {
        const user = request.headers.get("x-user");
        return user === null || { user };
      },
    },
  );
  const parked =
    options.accountFrom === undefined
      ? [await made.handle("BAD", "Confirmed"), await made.handle("WORSE", "Confirmed")]
      : [];
  const csrf = "a".repeat(64);
  /** Sends a form of the user `bo`. */
  const send = async (fields: [string, string][], user: string | undefined = "bo") => {
    const headers = { cookie: `stayhook-csrf=${csrf}`, ...(user !== "" && { "x-user": user }) };
    const body = new URLSearchParams([["csrf", csrf], ...fields]);
    const { status } = await made.inbox.fetch(
      new Request("https://ops.example/", { method: "POST", body, headers }),
    );
    const told = operated.splice(0);
    const said = lines.splice(0).map(({ level, message, ...fields }) => ({ message, ...fields }));
    return { status, told, said };
  };
  return { ...made, parked, send };
}

const kind = "operated";

describe("each change in the console is told, with who made it", () => {
  test("the replay and discard of single events, each by itself", async () => {
    const { send, parked, store } = await audited();
    const [first, second] = parked;
    const one = await send([...[["do", "replay"] as [string, string]], ["event", `parked ${first}`]]);
    expect(one.told).toEqual([
      { kind, action: "replay", user: "bo", eventId: first, ref: "booking:BAD", count: 1 },
    ]);
    expect(one.said).toEqual([
      {
        message: `stayhook: event ${first} (booking:BAD) replayed in the console by bo`,
        ...{ eventId: first, ref: "booking:BAD", user: "bo" },
      },
    ]);
    await store.discard({ eventId: first });
    // The first is done by now, so nothing is told of it.
    const both = await send([
      ["do", "discard"],
      ["event", `parked ${first}`],
      ["event", `parked ${second}`],
    ]);
    expect(both.told).toEqual([
      { kind, action: "discard", user: "bo", eventId: second, ref: "booking:WORSE", count: 1 },
    ]);
    expect(both.said.map(({ message }) => message)).toEqual([
      `stayhook: event ${second} (booking:WORSE) discarded in the console by bo`,
    ]);
  });

  test("the change of all that match, with the filter, and without the text that somebody searched in the log", async () => {
    const { send, store } = await audited();
    const all = (change: string, ...more: [string, string][]) =>
      send([["do", change], ["all", "1"], ["state", "parked"], ...more], "");
    const searched = await all("replay", ["error", "Ann Lee"]);
    expect(searched.told).toMatchObject([
      { action: "replay", user: undefined, filter: { state: "parked", error: "Ann Lee" }, count: 2 },
    ]);
    expect(searched.said.map(({ message }) => message)).toEqual([
      "stayhook: 2 events replayed (parked, by a text of their error) in the console",
    ]);
    const nothing = await all("discard");
    expect([nothing.told, nothing.said]).toEqual([[], []]);
    const pending = await send([
      ["do", "discard"],
      ["all", "1"],
      ["state", "pending"],
      ["source", "webhook"],
    ]);
    expect(pending.told).toMatchObject([
      { action: "discard", filter: { state: "pending", source: "webhook" }, count: 2 },
    ]);
    expect(pending.said).toEqual([
      {
        message: "stayhook: 2 events discarded (pending, source webhook) in the console by bo",
        user: "bo",
      },
    ]);
    expect(await store.counts()).toMatchObject({ done: 2 });
  });

  test("an event that runs before its time", async () => {
    const { send, webhooks, store } = await audited();
    await webhooks.timers("booking:BAD").set("mail", new Date(Date.now() + 86_400_000));
    await webhooks.timers("booking:WORSE").set("mail", new Date(Date.now() + 86_400_000));
    const [timer] = await store.list({ state: "scheduled", ref: "booking:BAD", limit: 1 });
    const { eventId } = timer!;
    const asked = await send([
      ["do", "replay"],
      ["event", `scheduled ${eventId}`],
    ]);
    expect([asked.status, asked.told]).toEqual([200, []]);
    const ran = await send([
      ["do", "replay"],
      ["event", `scheduled ${eventId}`],
      ["confirmed", "1"],
    ]);
    expect(ran.told).toMatchObject([{ action: "run now", eventId, ref: "booking:BAD", count: 1 }]);
    expect(ran.said[0]?.message).toBe(
      `stayhook: event ${eventId} (booking:BAD) run early in the console by bo`,
    );
    const rest = await send([
      ["do", "replay"],
      ["all", "1"],
      ["state", "scheduled"],
    ]);
    expect(rest.told).toMatchObject([{ action: "run now", filter: { state: "scheduled" }, count: 1 }]);
  });

  test("the deletion of a record", async () => {
    const { send } = await audited();
    const erased = await send([
      ["do", "erase"],
      ["record", "booking:BAD"],
    ]);
    expect(erased.told).toEqual([{ kind, action: "erase", user: "bo", ref: "booking:BAD", count: 1 }]);
    expect(erased.said).toEqual([
      {
        message: "stayhook: booking:BAD and 1 event erased in the console by bo",
        ...{ ref: "booking:BAD", user: "bo" },
      },
    ]);
  });

  test("what was changed before the store failed", async () => {
    const { send, store, parked } = await audited();
    const replay = store.replay.bind(store);
    vi.spyOn(store, "replay").mockImplementation(async (filter) => {
      if (filter.eventId !== parked[0]) return replay(filter);
      await new Promise((resolve) => setTimeout(resolve, 20));
      throw new Error("connection lost");
    });
    const searched = await send([
      ["do", "replay"],
      ["all", "1"],
      ["state", "parked"],
      ["error", "room"],
    ]);
    expect(searched.status).toBe(503);
    expect(searched.told).toMatchObject([{ action: "replay", count: 1 }]);
  });

  test("a name that would forge a line of the log", async () => {
    const { send, parked } = await audited();
    const { said } = await send(
      [
        ["do", "discard"],
        ["event", parked[0] ?? ""],
      ],
      "bo\u0085stayhook: nobody",
    );
    expect(said[0]?.message).toContain("by bo\\u0085stayhook: nobody");
  });
});

describe("authorize", () => {
  test("may read the body of a form, with and without a copy of the request", async () => {
    const seen: string[] = [];
    const { inbox, store, handle } = await servedInboxOf(
      { on: { fallback: () => Promise.reject(new Error("no room")) }, maxAttempts: 1 },
      {
        authorize: async (request) => {
          if (request.method === "POST") seen.push((await request.formData()).get("do") as string);
          return true;
        },
      },
    );
    const eventId = await handle("BAD", "Confirmed");
    const csrf = "a".repeat(64);
    const body = new URLSearchParams({ csrf, do: "replay", event: eventId });
    const headers = { cookie: `stayhook-csrf=${csrf}` };
    const { status } = await inbox.fetch(
      new Request("https://ops.example/", { method: "POST", body, headers }),
    );
    expect({ status, seen }).toEqual({ status: 303, seen: ["replay"] });
    expect(await store.counts()).toMatchObject({ pending: 1 });
  });

  test("leaves no body open: what nobody reads any more is canceled", async () => {
    const { inbox } = await servedInboxOf();
    const cancel = vi.fn();
    const chunk = new Uint8Array(10_000);
    const body = new ReadableStream({ pull: (controller) => controller.enqueue(chunk), cancel });
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const init = { method: "POST", body, headers, duplex: "half" } as RequestInit;
    expect((await inbox.fetch(new Request("https://ops.example/", init))).status).toBe(413);
    await eventually(() => expect(cancel).toHaveBeenCalled());
  });

  test("that holds the body, and refuses the request, holds no answer up", async () => {
    const authorize = (request: Request) => request.body?.getReader() === undefined;
    const { url } = await servedInboxOf({}, { authorize });
    expect((await new Browser().post(url, { do: "replay" })).status).toBe(403);
  });

  test.each([
    [{ user: "bo" }, 200],
    [Promise.resolve({ user: "bo" }), 200],
    [{ user: "" }, 403],
    [{ user: 7 }, 403],
    [{ user: undefined }, 403],
    [{}, 403],
    ["bo", 403],
    [null, 403],
  ])("that returns %j is answered %i", async (answer, status) => {
    const { url } = await servedInboxOf({}, { authorize: (() => answer) as never });
    expect((await new Browser().get(url)).status).toBe(status);
  });
});

test("an observation of an account has the account", async () => {
  const { send, store } = await audited({
    client: new StayhookClient({ baseUrl: "https://platform.example", accessToken: () => "token" }),
    accountFrom: { query: "account" },
  });
  await store.add(eventOf("a17/booking:BAD", "a17/one"));
  const { told } = await send([
    ["do", "discard"],
    ["event", "a17/one"],
  ]);
  expect(told).toMatchObject([{ account: "a17", eventId: "a17/one", ref: "a17/booking:BAD" }]);
});

test("a change of an event without a record says so", () => {
  const operation = { kind: "operated", action: "discard", eventId: "7c1f", ref: null, count: 1 } as const;
  expect(operationText(operation as never)).toBe("event 7c1f (no record) discarded");
});
