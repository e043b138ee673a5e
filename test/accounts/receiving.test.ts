import { createHmac } from "node:crypto";
import { describe, expect, test, vi } from "vitest";
import {
  type Booking,
  createWebhookHandler,
  forwardTo,
  InvalidArgumentError,
  type LogEntry,
  memoryStore,
  type Observation,
  ProcessingError,
  StayhookClient,
  sharedSecret,
  type Verify,
  type WebhookHandlerOptions,
} from "../../src/index.ts";
import type { StoredEvent } from "../../src/stores/stored-event.ts";

const UUID = "3f0e1d9a-58b4-4c4f-9a6e-6f3f1c2a7b10";
const SECRET = "0123456789abcdef0123456789abcdef";
const keyOf = (account: string, secret = SECRET) =>
  createHmac("sha256", secret).update(account).digest("hex");

/** A platform on which each account has its own bookings: `statuses[account][code]`. */
function platform(statuses: Record<string, Record<string, string>> = {}) {
  const reads: string[] = [];
  const fetch = async (url: string, init: RequestInit) => {
    const account = new Headers(init.headers).get("authorization")!.replace("Bearer token-", "");
    const bookingCode = decodeURIComponent(url.split("/").at(-1)!);
    reads.push(`${account} ${bookingCode}`);
    const status = statuses[account]?.[bookingCode];
    return status === undefined
      ? new Response("{}", { status: 404 })
      : Response.json({ bookingCode, status });
  };
  const accessToken = ({ account }: { account: string | undefined }) => `token-${account}`;
  return { reads, client: new StayhookClient({ baseUrl: "https://api.example", accessToken, fetch }) };
}

type Options = Partial<WebhookHandlerOptions>;

function setup(options: Options = {}, statuses?: Parameters<typeof platform>[0]) {
  const { client, reads } = platform(statuses);
  const events: { account?: string; ref: string | null; eventId: string; status?: string | undefined }[] = [];
  const log: LogEntry[] = [];
  const seen: Observation[] = [];
  const store = memoryStore();
  const webhooks = createWebhookHandler({
    client,
    store,
    autoStart: false,
    verify: false,
    accountFrom: { query: "account" } as const,
    logger: (entry: LogEntry) => void log.push(entry),
    observe: (event: Observation) => seen.push(event),
    on: { fallback: (event: (typeof events)[number]) => void events.push(event) },
    ...(options as object),
  });
  const post = async (url: string, body: object = {}, more: object = {}) =>
    webhooks.receive({
      method: "POST",
      url,
      headers: {},
      body: { eventId: UUID, timestamp: "2026-12-01T10:00:00Z", bookingCode: "HX3K9", ...body },
      ...more,
    });
  return { client, events, log, post, reads, seen, store, webhooks };
}

/** An app whose callback sets a timer for the only booking of each of two accounts. */
function setupWithTimers() {
  const at = new Date(Date.now() + 3_600_000);
  const on = {
    booking: ({ timers }: { timers: { set(name: string, at: Date): void } }) => timers.set("door", at),
    "booking.timer.door": () => {},
  };
  const bookings = { HX3K9: "Confirmed" };
  return { at, ...setup({ on } as Options, { a17: bookings, b2: bookings }) };
}

const stored = async ({ store }: { store: { list(o: { limit: number }): Promise<StoredEvent[]> } }) =>
  (await store.list({ limit: 10 })).map(({ ref, eventId }) => ({ ref, eventId }));

describe("the account of a request", () => {
  test("is the beginning of the event's ref and id, and one eventId may reach two accounts", async () => {
    const app = setup({}, { a17: { HX3K9: "Confirmed" }, b2: { HX3K9: "Cancelled" } });
    for (const account of ["a17", "b2", "a17"])
      expect((await app.post(`/hooks?account=${account}`)).status).toBe(200);
    expect(await stored(app)).toEqual([
      { ref: "b2/booking:HX3K9", eventId: `b2/${UUID}` },
      { ref: "a17/booking:HX3K9", eventId: `a17/${UUID}` },
    ]);
    await app.webhooks.drain();
    expect(app.reads.sort()).toEqual(["a17 HX3K9", "b2 HX3K9"]);
    const shown = app.events
      .map(({ account, ref, eventId, status }) => [account, ref, eventId, status])
      .sort();
    expect(shown).toEqual([
      ["a17", "a17/booking:HX3K9", `a17/${UUID}`, "Confirmed"],
      ["b2", "b2/booking:HX3K9", `b2/${UUID}`, "Cancelled"],
    ]);
    expect(app.events[0]).toMatchObject({ notification: { eventId: UUID } });
    for (const event of app.seen)
      expect(event).toMatchObject({ account: /^(a17|b2)/.exec((event as { eventId: string }).eventId)![0] });
  });

  test.each([
    ["missing", "/hooks", {}],
    ["bad", "/hooks?account=a%2Fb", {}],
    ["bad from an adapter", "/hooks?account=a17", { account: "a b" }],
    ["two", "/hooks?account=a17&account=b2", {}],
    ["two from an adapter", "/hooks", { account: ["a17", "b2"] }],
  ])("%s is a 404, before verify is asked", async (_, url, more) => {
    const verify = vi.fn(() => true);
    const app = setup({ verify });
    expect((await app.post(url, {}, more)).status).toBe(404);
    expect(verify).not.toHaveBeenCalled();
    expect(app.seen).toMatchObject([{ kind: "refused", reason: "account", status: 404 }]);
    expect(await stored(app)).toEqual([]);
  });

  test.each([
    ["equal values", "/hooks?account=a17&account=a17", {}],
    ["an adapter's account, which wins", "/hooks?account=b2", { account: "a17" }],
    ["equal values of an adapter", "/hooks", { account: ["a17", "a17"] }],
  ])("%s is an account", async (_, url, more) => {
    const app = setup();
    expect((await app.post(url, {}, more)).status).toBe(200);
    expect(await stored(app)).toEqual([{ ref: "a17/booking:HX3K9", eventId: `a17/${UUID}` }]);
  });

  test("may come from a function of the URL and the headers; a throw and a promise are a 503 that quote nothing", async () => {
    const from = vi.fn(({ url, headers }: { url: URL; headers: Headers }): string | undefined => {
      if (headers.has("x-fail")) throw new Error(`secret ${url}`);
      if (headers.has("x-async")) return Promise.resolve("a17") as never;
      return url.hostname.endsWith(".hooks.example") ? url.hostname.split(".")[0] : undefined;
    });
    const app = setup({ accountFrom: from });
    const post = async (headers: object) =>
      (await app.post("//evil.example/x?key=secret", {}, { headers })).status;
    expect(await post({ host: "a17.hooks.example" })).toBe(200);
    expect(await post({ host: "other.example" })).toBe(404);
    expect(await post({ host: "x/a17.hooks.example" })).toBe(404);
    expect(await post({ "x-fail": "1" })).toBe(503);
    expect(await post({ "x-async": "1" })).toBe(503);
    expect(app.seen.slice(-2)).toMatchObject([{ reason: "account-failed" }, { reason: "account-failed" }]);
    expect(JSON.stringify(app.log)).not.toMatch(/secret/);
    expect(app.log.at(-1)!.message).toMatch(
      /finds the account returned a promise. It must return the account itself/,
    );
  });

  test("from an adapter is no promise: the answer is a 503, and the log says why", async () => {
    const app = setup();
    const account = Promise.reject(new Error("secret"));
    expect((await app.post("/hooks?account=a17", {}, { account })).status).toBe(503);
    expect(app.seen).toMatchObject([{ reason: "account-failed" }]);
    expect(app.log).toMatchObject([{ message: expect.stringMatching(/returned a promise/) }]);
  });

  test("is in verify's argument, in fetch's second argument, and in the line and observation of a refusal", async () => {
    const seen: unknown[] = [];
    const verify: Verify = ({ account }) => seen.push(account) === 0;
    const app = setup({ verify });
    const request = new Request("https://x.example/hooks", { method: "POST", body: "{}" });
    expect((await app.webhooks.fetch(request, { account: "a17" })).status).toBe(401);
    expect(seen).toEqual(["a17"]);
    expect(app.seen).toMatchObject([{ reason: "verify", account: "a17" }]);
    expect(app.log).toMatchObject([{ account: "a17" }]);
  });

  test("without accountFrom, nothing is visible, and an account is an error", async () => {
    const verify = vi.fn<Verify>(() => true);
    const app = setup({ accountFrom: undefined, verify }, { undefined: { HX3K9: "Confirmed" } });
    expect((await app.post("/hooks?account=a17", {}, { account: "a17" })).status).toBe(500);
    expect((await app.post("/hooks?account=a17")).status).toBe(200);
    await app.webhooks.drain();
    expect(await stored(app)).toEqual([{ ref: "booking:HX3K9", eventId: UUID }]);
    expect(app.events).toHaveLength(1);
    for (const thing of [app.events[0]!, verify.mock.calls[0]![0], ...app.seen, ...app.log])
      expect(Object.keys(thing)).not.toContain("account");
  });
});

describe("sharedSecret", () => {
  test("with perAccount takes each account's own key, of each secret, and no other's", async () => {
    const older = "another secret of 32 characters!";
    const app = setup({ verify: sharedSecret({ query: "key", secret: [SECRET, older], perAccount: true }) });
    const status = async (account: string, key: string) =>
      (await app.post(`/hooks?account=${account}&key=${key}`)).status;
    expect(await status("a17", keyOf("a17"))).toBe(200);
    expect(await status("a17", keyOf("a17", older))).toBe(200);
    expect(await status("b2", keyOf("a17"))).toBe(401);
    expect(await status("a17", SECRET)).toBe(401);
    expect(await status("A17", keyOf("a17"))).toBe(401);
    expect(app.log.filter(({ message }) => /all accounts/.test(message))).toEqual([]);
  });

  test("takes what a function gives: undefined is 401, a throw 503, and an empty secret accepts nothing", async () => {
    const secrets: Record<string, () => unknown> = {
      sync: () => "secret-1",
      list: async () => ["secret-2", undefined, "secret-3"],
      left: async () => undefined,
      nobody: () => null,
      none: () => [],
      throws: () => {
        throw new Error("the database is down");
      },
      rejects: () => Promise.reject(new Error("the database is down")),
      empty: () => "",
    };
    const secret = ({ account }: { account: string }) => secrets[account]!() as string;
    const app = setup({ verify: sharedSecret({ query: "key", secret }) });
    const status = async (account: string, key = "") =>
      (await app.post(`/hooks?account=${account}&key=${key}`)).status;
    expect([await status("sync", "secret-1"), await status("sync", "secret-2")]).toEqual([200, 401]);
    expect([await status("list", "secret-2"), await status("list", "secret-3")]).toEqual([200, 200]);
    for (const account of ["left", "nobody", "none"]) expect(await status(account)).toBe(401);
    for (const account of ["throws", "rejects", "empty"]) expect(await status(account)).toBe(503);
    expect(app.seen.at(-1)).toMatchObject({ reason: "secret-failed", account: "empty" });
  });

  test("warns of one secret for all accounts, and needs accountFrom for more", () => {
    const plain = setup({ verify: sharedSecret({ query: "key", secret: SECRET }) });
    expect(plain.log).toMatchObject([{ level: "warn", message: expect.stringMatching(/perAccount/) }]);
    const refused = (options: Options, message: RegExp) => {
      expect(() => setup(options)).toThrow(InvalidArgumentError);
      expect(() => setup(options)).toThrow(message);
    };
    const accountFrom = undefined;
    refused(
      { accountFrom, verify: sharedSecret({ query: "key", secret: SECRET, perAccount: true }) },
      /accountFrom/,
    );
    refused({ accountFrom, verify: sharedSecret({ query: "key", secret: () => "x" }) }, /accountFrom/);
    expect(() => sharedSecret({ query: "key", secret: () => "x", perAccount: true })).toThrow(/perAccount/);
    refused(
      { client: new StayhookClient({ baseUrl: "https://x.example", accessToken: "text" }) },
      /accessToken/,
    );
    refused({ accountFrom: { query: "" } }, /accountFrom/);
    refused({ accountFrom: { query: "topic" } }, /accountFrom/);
  });
});

describe("webhooks.endpointUrl", () => {
  const verify = sharedSecret({
    query: "key",
    secret: [SECRET, "older secret of 32 characters..."],
    perAccount: true,
  });

  test.each([
    ["https://example.com/hooks", "https://example.com/hooks?account=a17&key=KEY"],
    [
      "https://example.com/hooks?topic=bookings&key=old&x=%2B",
      "https://example.com/hooks?topic=bookings&x=%2B&account=a17&key=KEY",
    ],
    ["https://example.com/?account=b2&account=c3", "https://example.com/?account=a17&key=KEY"],
    ["http://localhost:3000/hooks", "http://localhost:3000/hooks?account=a17&key=KEY"],
  ])("of %s is accepted", async (base, url) => {
    const app = setup({ verify });
    const made = await app.webhooks.endpointUrl(base, { account: "a17" });
    expect(made).toBe(url.replace("KEY", keyOf("a17")));
    expect((await app.post(made.replace(/^https?:\/\/[^/]*/, ""))).status).toBe(200);
  });

  test("has the secret as the last segment of the path, once", async () => {
    const app = setup({ verify: sharedSecret({ pathSegment: "last", secret: SECRET, perAccount: true }) });
    const url = `https://example.com/hooks/${keyOf("a17")}?account=a17`;
    expect(await app.webhooks.endpointUrl("https://example.com/hooks/", { account: "a17" })).toBe(url);
    expect(await app.webhooks.endpointUrl(url, { account: "a17" })).toBe(url);
  });

  test.each([".", ".."])("is not made where the secret %s would change the path", async (secret) => {
    const app = setup({ accountFrom: undefined, verify: sharedSecret({ pathSegment: "last", secret }) });
    await expect(app.webhooks.endpointUrl("https://example.com/hooks")).rejects.toThrow(/sharedSecret finds/);
  });

  test("with a function needs a base that names this account", async () => {
    const accountFrom = ({ url }: { url: URL }) => /^\/hooks\/([^/]+)$/.exec(url.pathname)?.[1];
    const app = setup({ accountFrom, verify });
    const url = (base: string) => app.webhooks.endpointUrl(base, { account: "a17" });
    expect(await url("https://example.com/hooks/a17")).toBe(
      `https://example.com/hooks/a17?key=${keyOf("a17")}`,
    );
    for (const base of ["https://example.com/hooks", "https://example.com/hooks/b2"])
      await expect(url(base)).rejects.toThrow(InvalidArgumentError);
  });

  test("refuses wrong arguments, and an account that has left", async () => {
    const { webhooks } = setup({ verify });
    const wrong: [string, object | undefined][] = [
      ["http://example.com/hooks", { account: "a17" }],
      ["/hooks", { account: "a17" }],
      ["https://example.com/hooks", undefined],
      ["https://example.com/hooks", { account: "a/b" }],
      ["https://example.com/hooks", { acount: "a17" }],
    ];
    for (const [base, options] of wrong)
      await expect(webhooks.endpointUrl(base, options)).rejects.toThrow(InvalidArgumentError);
    const left = setup({ verify: sharedSecret({ query: "key", secret: () => undefined }) });
    await expect(left.webhooks.endpointUrl("https://example.com", { account: "a17" })).rejects.toThrow(/a17/);
    const single = setup({ accountFrom: undefined, verify: sharedSecret({ query: "key", secret: SECRET }) });
    expect(await single.webhooks.endpointUrl("https://example.com/hooks")).toBe(
      `https://example.com/hooks?key=${SECRET}`,
    );
    await expect(single.webhooks.endpointUrl("https://example.com", { account: "a17" })).rejects.toThrow(
      /accountFrom/,
    );
    const own = setup({ verify: () => false });
    expect(await own.webhooks.endpointUrl("https://example.com/", { account: "a17" })).toBe(
      "https://example.com/?account=a17",
    );
  });
});

describe("forwardTo and process", () => {
  test("what forwardTo sends carries its account", async () => {
    const sent: unknown[] = [];
    const app = setup({ store: forwardTo((event) => sent.push(event)) }, { a17: { HX3K9: "Confirmed" } });
    await app.post("/hooks?account=a17");
    expect(sent).toMatchObject([{ eventId: `a17/${UUID}`, ref: "a17/booking:HX3K9" }]);
    for (const given of [sent[0] as never, JSON.stringify(sent[0])])
      expect(await app.webhooks.process(given)).toMatchObject({
        eventId: `a17/${UUID}`,
        status: "Confirmed",
      });
    expect(app.reads).toEqual(["a17 HX3K9", "a17 HX3K9"]);
    await expect(app.webhooks.process(sent[0] as never, { account: "b2" })).rejects.toThrow(ProcessingError);
    const single = setup({ accountFrom: undefined });
    await expect(single.webhooks.process(sent[0] as never)).rejects.toMatchObject({
      reason: "invalid",
      retryable: false,
    });
    expect(single.reads).toEqual([]);
    expect(await app.webhooks.endpointUrl("https://x.example", { account: "a17" })).toContain("account=a17");
  });

  test("a raw notification needs an account, and without accountFrom has none", async () => {
    const app = setup({}, { a17: { HX3K9: "Confirmed" } });
    const notification = { eventId: UUID, bookingCode: "HX3K9" };
    expect(await app.webhooks.process(notification, { account: "a17" })).toMatchObject({
      eventId: `a17/${UUID}`,
    });
    expect(app.events).toMatchObject([{ account: "a17", ref: "a17/booking:HX3K9" }]);
    await expect(app.webhooks.process(notification)).rejects.toMatchObject({
      reason: "invalid",
      retryable: false,
    });
    await expect(app.webhooks.process(notification, { account: "a/b" })).rejects.toThrow(
      InvalidArgumentError,
    );
    const single = setup({ accountFrom: undefined });
    await expect(single.webhooks.process(notification, { account: "a17" })).rejects.toThrow(
      InvalidArgumentError,
    );
  });
});

describe("an event of an account", () => {
  test("has timers, second looks and follow-ups of the account", async () => {
    const { at, ...app } = setupWithTimers();
    for (const account of ["a17", "b2"]) {
      await app.post(`/hooks?account=${account}`);
      await app.post(`/hooks?account=${account}`, { eventId: UUID.replace("3f", "4f") });
      await app.webhooks.drain();
    }
    await app.post("/hooks?account=a17", { eventId: UUID.replace("3f", "5f"), bookingCode: "hx3k9" });
    const ids = (await app.store.list({ source: "timer", limit: 9 })).map(({ eventId }) => eventId);
    expect(ids.sort()).toEqual(
      ["a17", "b2"].map((a) => `${a}/stayhook:timer:booking:HX3K9:door:${at.toISOString()}`),
    );
    const rechecks = (await app.store.list({ source: "recheck", limit: 9 })).map(({ eventId }) => eventId);
    expect(rechecks.sort()).toEqual(["a17", "b2"].map((a) => `${a}/stayhook:recheck:booking:HX3K9`));
    expect(await app.webhooks.timers("a17/booking:HX3K9").list()).toMatchObject([{ name: "door" }]);
    await app.webhooks.timers("a17/booking:HX3K9").clear();
    expect(await app.webhooks.timers("b2/booking:HX3K9").list()).toHaveLength(1);
    expect(() => app.webhooks.timers("booking:HX3K9")).toThrow(/account/);
    expect(() => setup({ accountFrom: undefined }).webhooks.timers("a17/booking:HX3K9")).toThrow(
      InvalidArgumentError,
    );
  });

  test("with another spelling of the code goes on under the account's own ref", async () => {
    const { client, reads } = platform({ a17: { hx: "Confirmed" } });
    const spelled = Object.assign(Object.create(client), {
      account: (id: string) => ({
        bookings: {
          get: async (code: string): Promise<Booking> => {
            reads.push(`${id} ${code}`);
            return { bookingCode: "HX", status: "Confirmed" } as Booking;
          },
        },
        listings: {},
      }),
      bookings: {},
      listings: {},
    });
    const app = setup({ client: spelled });
    await app.post("/hooks?account=a17", { bookingCode: "hx" });
    await app.webhooks.drain();
    expect(app.events).toMatchObject([
      { ref: "a17/booking:HX", eventId: `a17/stayhook:follow-up:${UUID}`, account: "a17" },
    ]);
  });

  test("is not handled by a handler without accountFrom, which would read it with another token", async () => {
    const app = setup();
    await app.post("/hooks?account=a17");
    const single = setup({ accountFrom: undefined, store: app.store });
    await single.webhooks.drain();
    expect([single.reads, single.events]).toEqual([[], []]);
    expect(single.seen).toMatchObject([
      { kind: "started" },
      { kind: "failed", error: { message: expect.stringMatching(/a17/) } },
    ]);
  });
});

describe("webhooks.eraseAccount", () => {
  test("deletes the account's events, timers, snapshots and place, and nothing of another account", async () => {
    const app = setupWithTimers();
    for (const account of ["a17", "b2"]) {
      await app.post(`/hooks?account=${account}`);
      await app.post(`/hooks?account=${account}`, { eventId: UUID.replace("3f", "4f"), bookingCode: null });
      await app.store.setMeta(`${account}/stayhook:reconciler`, "place", { expected: undefined });
    }
    await app.webhooks.drain();
    expect(await app.webhooks.eraseAccount("a17")).toEqual({ events: 3, snapshots: 1, processing: 0 });
    expect(await app.store.list({ account: "a17", limit: 9 })).toEqual([]);
    expect(await app.store.list({ account: "b2", limit: 9 })).toHaveLength(3);
    expect([
      await app.store.snapshotOf("a17/booking:HX3K9"),
      await app.store.getMeta("a17/stayhook:reconciler"),
    ]).toEqual([...[undefined, undefined]]);
    expect((await app.store.getMeta("b2/stayhook:reconciler"))?.value).toBe("place");
    expect(await app.webhooks.eraseAccount("a17")).toEqual({ events: 0, snapshots: 0, processing: 0 });
    await expect(app.webhooks.eraseAccount("a/b")).rejects.toThrow(InvalidArgumentError);
    await expect(setup({ accountFrom: undefined }).webhooks.eraseAccount("a17")).rejects.toThrow(
      /accountFrom/,
    );
  });
});

describe("from one account to many", () => {
  test("ready and the log say how many events have no account", async () => {
    const before = setup({ accountFrom: undefined });
    await before.post("/hooks");
    await before.post("/hooks", { eventId: UUID.replace("3f", "4f"), bookingCode: null });
    expect(await before.webhooks.ready()).toBeUndefined();
    const app = setup({ store: before.store });
    await app.post("/hooks?account=a17");
    expect(await app.webhooks.ready()).toEqual({ eventsWithoutAccount: 2 });
    await app.webhooks.ready();
    expect(app.log.filter(({ message }) => /2 events have no account/.test(message))).toHaveLength(1);
    expect(await setup().webhooks.ready()).toEqual({ eventsWithoutAccount: 0 });
  });

  test("an event without an account is left as it is, for a handler without accountFrom", async () => {
    const before = setup({ accountFrom: undefined }, { undefined: { HX3K9: "Confirmed" } });
    await before.post("/hooks");
    const app = setup({ store: before.store }, { a17: { HX3K9: "Confirmed" } });
    await app.post("/hooks?account=a17");
    expect(await app.webhooks.drain()).toMatchObject({ done: 1, failed: 0 });
    expect(app.reads).toEqual(["a17 HX3K9"]);
    expect(await before.store.get(UUID)).toMatchObject({ state: "pending", attempts: 0, history: [] });
    expect(app.seen.filter((event) => "eventId" in event && event.eventId === UUID)).toEqual([]);
    await before.store.replay({ state: "pending" });
    expect(await before.webhooks.drain()).toMatchObject({ done: 1 });
  });

  test("two handlers without accountFrom on one store warn, unless the first is closed", async () => {
    const warnings = ({ log }: { log: LogEntry[] }) =>
      log.filter(({ message }) => /another webhook handler/.test(message));
    const one = setup({ accountFrom: undefined });
    const other = setup({ accountFrom: undefined, store: one.store });
    expect([warnings(one).length, warnings(other).length]).toEqual([0, 1]);
    await one.webhooks.close();
    await other.webhooks.close();
    expect(warnings(setup({ accountFrom: undefined, store: one.store }))).toEqual([]);
    const many = setup();
    expect(warnings(setup({ store: many.store }))).toEqual([]);
  });
});

describe("health", () => {
  test("names the accounts that are paused, and only a handler with accountFrom does", async () => {
    const { client } = platform({ b2: { HX3K9: "Confirmed" } });
    const accessToken = ({ account }: { account: string | undefined }) => {
      if (account !== "b2") throw new Error("revoked");
      return `token-${account}`;
    };
    const app = setup({ client: client.withOptions({ accessToken }) }, {});
    for (const account of ["b2", "a17"]) await app.post(`/hooks?account=${account}`);
    await app.webhooks.drain({ timeout: 2000 });
    const health = await app.webhooks.health();
    expect(health.pausedAccounts).toEqual({
      count: 1,
      first: [
        {
          account: "a17",
          scope: "account",
          since: expect.any(Date),
          nextTryAt: expect.any(Date),
          reason: expect.stringMatching(/revoked|threw/),
        },
      ],
    });
    expect(health.state).not.toBe("paused");
    expect(await setup({ accountFrom: undefined }).webhooks.health()).not.toHaveProperty("pausedAccounts");
    for (let n = 0; n < 21; n += 1) await app.post(`/hooks?account=bad${n}`);
    await app.webhooks.drain({ timeout: 2000 });
    const { pausedAccounts } = await app.webhooks.health();
    expect([pausedAccounts?.count, pausedAccounts?.first.length]).toEqual([22, 20]);
    const forwarding = setup({ store: forwardTo(() => {}) as never });
    expect((await forwarding.webhooks.health()).pausedAccounts).toEqual({ count: 0, first: [] });
  });
});
