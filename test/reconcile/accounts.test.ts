import {
  createWebhookHandler,
  InvalidArgumentError,
  memoryStore,
  StayhookClient,
  StayhookError,
} from "stayhook";
import { createReconciler, type ReconcileObservation, type ReconcilerOptions } from "stayhook/reconcile";
import type { Sandbox } from "stayhook/testing";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { hashOf } from "../../src/reconcile/schedule.ts";
import { internalsOf } from "../../src/webhooks/internals.ts";
import { eventually } from "../support/eventually.ts";
import { startSandbox, stores } from "./support.ts";

const ids = ["a17", "b2", "c3"];

/** One machine of a vendor. Tokens may be replaced. */
function vendor(sandbox: Sandbox, store = stores.memory!()(), more: Partial<ReconcilerOptions> = {}) {
  const tokens = new Map(sandbox.accounts.map((id) => [id, sandbox.account(id).accessToken]));
  /** The account and path of each record that the platform no longer returns. */
  const hidden = new Set<string>();
  const handled: string[] = [];
  const seen: ReconcileObservation[] = [];
  const alarms: unknown[] = [];
  const lines: { message: string; account?: string | undefined }[] = [];
  const client = new StayhookClient({
    baseUrl: sandbox.url,
    accessToken: ({ account }) => tokens.get(account!)!,
    fetch: async (url, init) => {
      const authorization = new Headers(init?.headers).get("authorization") ?? "";
      const account = [...tokens].find(([, token]) => authorization.endsWith(token))?.[0];
      return hidden.has(`${account} ${new URL(String(url)).pathname}`)
        ? new Response("{}", { status: 404 })
        : fetch(url, init);
    },
  });
  const webhooks = createWebhookHandler({
    client,
    store,
    verify: false,
    accountFrom: { query: "account" },
    on: { fallback: ({ account, ref, type }) => void handled.push(`${account} ${ref} ${type}`) },
    observe: (event) => void (["missed", "drift"].includes(event.kind) && alarms.push(event)),
    logger: (entry) => void lines.push(entry),
    backoff: () => 5,
  });
  const reconciler = createReconciler(webhooks, {
    accounts: () => [...sandbox.accounts],
    observe: (event) => void seen.push(event),
    rate: 1000,
    ...more,
  });
  onTestFinished(async () => {
    await reconciler.close();
    await webhooks.close({ timeout: 0 });
  });
  const of = <K extends ReconcileObservation["kind"]>(kind: K) =>
    seen.filter((event): event is Extract<ReconcileObservation, { kind: K }> => event.kind === kind);
  return { client, webhooks, reconciler, store, tokens, handled, hidden, seen, of, alarms, lines };
}

/** Starts a sandbox whose accounts have a listing, and a booking that the vendor knows. */
async function scene(accounts = ids, more: Partial<ReconcilerOptions> = {}) {
  const sandbox = await startSandbox({ accounts });
  const app = vendor(sandbox, undefined, more);
  for (const id of accounts)
    await sandbox.account(id).bookings.create({ status: "Request", bookingCode: `K-${id}` });
  for (const id of accounts) await app.reconciler.watch(`K-${id}`, { account: id });
  await app.webhooks.drain();
  await app.reconciler.run();
  app.handled.length = 0;
  app.seen.length = 0;
  return { sandbox, ...app };
}

describe("run()", () => {
  test("makes a pass of each account, and resolves to the sums", async () => {
    const { sandbox, reconciler, handled, seen, of, alarms } = await scene();
    await sandbox.account("b2").bookings.approve("K-b2");
    const report = await reconciler.run();
    expect(report).toMatchObject({ changed: 1, failed: 0, accounts: { checked: 3, failed: 0 } });
    expect(report).not.toHaveProperty("account");
    expect(report).not.toHaveProperty("incomplete");
    expect(handled).toEqual(["b2 b2/booking:K-b2 booking.Confirmed"]);
    expect(of("changed")).toMatchObject([{ account: "b2", ref: "b2/booking:K-b2" }]);
    expect(alarms.filter((alarm) => (alarm as { kind: string }).kind === "missed")).toMatchObject([
      { kind: "missed", account: "b2", ref: "b2/booking:K-b2" },
    ]);
    const own = of("pass").filter(({ account }) => account !== undefined);
    expect(own.map(({ account }) => account).sort()).toEqual(ids);
    expect(of("pass").at(-1)).toMatchObject({ accounts: { checked: 3, failed: 0 } });
    for (const event of seen) if (event.kind !== "pass") expect(event.account).toMatch(/^(a17|b2|c3)$/);
    const checked = own.reduce((sum, event) => sum + event.checked, 0);
    expect(report.checked).toBe(checked);
    expect(checked).toBe(3);
  });

  test("of one account reads this account alone", async () => {
    const { sandbox, reconciler } = await scene();
    const before = sandbox.requests.length;
    expect(await reconciler.run({ account: "a17" })).toMatchObject({ account: "a17", failed: 0 });
    const accounts = sandbox.requests.slice(before).map(({ account }) => account);
    expect(new Set(accounts)).toEqual(new Set(["a17"]));
  });

  test("an account whose token is refused is reported and skipped", async () => {
    const { sandbox, reconciler, tokens, handled, of } = await scene();
    tokens.set("a17", "revoked");
    for (const id of ids) await sandbox.account(id).bookings.approve(`K-${id}`);
    const report = await reconciler.run();
    expect(report).toMatchObject({ changed: 2, accounts: { checked: 2, failed: 1 } });
    expect(report).not.toHaveProperty("incomplete");
    expect(handled.length).toBe(2);
    expect(of("failed")).toMatchObject([{ account: "a17", ref: "a17/listings" }]);
    expect(of("pass").find(({ account }) => account === "a17")).toMatchObject({
      incomplete: "unreachable",
    });
    tokens.set("a17", sandbox.account("a17").accessToken);
    expect(await reconciler.run()).toMatchObject({ changed: 1, accounts: { checked: 3, failed: 0 } });
    expect(handled.at(-1)).toBe("a17 a17/booking:K-a17 booking.Confirmed");
  });

  test("a token function that throws, and a platform that fails for one account", async () => {
    const { sandbox, reconciler, tokens } = await scene(ids, { concurrency: 2 });
    tokens.delete("a17");
    sandbox.account("b2").faults.set([{ status: 503 }]);
    expect((await reconciler.run()).accounts).toEqual({ checked: 1, failed: 2 });
  });

  test("all accounts refused is a pass that reached nothing", async () => {
    const { reconciler, tokens } = await scene();
    for (const id of ids) tokens.set(id, "revoked");
    expect(await reconciler.run()).toMatchObject({
      incomplete: "unreachable",
      accounts: { checked: 0, failed: 3 },
    });
  });

  test("if nothing is reached, further accounts do not wait for an answer", async () => {
    const { webhooks, reconciler, tokens, of } = await scene(ids, { concurrency: 1 });
    for (const id of ids) tokens.set(id, "revoked");
    const gates = internalsOf(webhooks)!.gates!;
    vi.spyOn(gates, "isAllShut", "get").mockReturnValue(true);
    const failed = { incomplete: "unreachable", accounts: { checked: 0, failed: 3 } };
    expect(await reconciler.run()).toMatchObject(failed);
    expect(of("pass").filter(({ account }) => account !== undefined)).toHaveLength(1);
  });

  test("an error of the store in the pass of one account is reported, and the others have theirs", async () => {
    const { reconciler, store, of } = await scene();
    const getMeta = store.getMeta.bind(store);
    let broken = ["b2"];
    vi.spyOn(store, "getMeta").mockImplementation(async (key) => {
      if (broken.some((id) => key.startsWith(`${id}/`))) throw new Error("disk full");
      return getMeta(key);
    });
    expect((await reconciler.run()).accounts).toEqual({ checked: 2, failed: 1 });
    expect(of("error")).toMatchObject([{ account: "b2", error: { message: "disk full" } }]);
    broken = ids;
    await expect(reconciler.run()).rejects.toThrow("disk full");
  });

  test("`accounts` may give any iterable, or a promise; an id that is not valid is reported", async () => {
    async function* later() {
      yield* ["a17", "b2", "a17"];
    }
    for (const accounts of [() => new Set(["a17", "b2"]), later, async () => ["a17", "b2"]]) {
      const { reconciler } = await scene(ids, { accounts });
      expect((await reconciler.run()).accounts).toEqual({ checked: 2, failed: 0 });
    }
    const wrong = await scene(ids, { accounts: () => ["a17", 17 as never, "no/id"] });
    expect((await wrong.reconciler.run()).accounts).toEqual({ checked: 1, failed: 2 });
    expect(wrong.of("error").map(({ error }) => String(error))).toEqual([
      expect.stringContaining("a value of type number"),
      expect.stringContaining('"no/id"'),
    ]);
  });

  test("rejects with the error of `accounts`", async () => {
    const sandbox = await startSandbox({ accounts: ids });
    const failing = vendor(sandbox, undefined, { accounts: () => Promise.reject(new Error("no table")) });
    await expect(failing.reconciler.run()).rejects.toThrow("no table");
    const text = vendor(sandbox, undefined, { accounts: () => "a17" });
    await expect(text.reconciler.run()).rejects.toThrow(InvalidArgumentError);
  });

  test("at most `concurrency` accounts have a pass at once", async () => {
    const accounts = Array.from({ length: 9 }, (_, n) => `acc${n}`);
    const sandbox = await startSandbox({ accounts });
    let running = 0;
    let most = 0;
    const store = memoryStore();
    const setMeta = store.setMeta.bind(store);
    vi.spyOn(store, "setMeta").mockImplementation(async (key, value, ...rest) => {
      const written = await setMeta(key, value, ...rest);
      running += JSON.parse(value!).owner === null ? -1 : 1;
      most = Math.max(most, running);
      return written;
    });
    const { reconciler } = vendor(sandbox, store as never, { concurrency: 3 });
    expect((await reconciler.run()).accounts).toEqual({ checked: 9, failed: 0 });
    expect(most).toBe(3);
  });

  test("a signal ends it, and close() too", async () => {
    const { reconciler } = await scene();
    const report = await reconciler.run({ signal: AbortSignal.abort() });
    expect(report).toMatchObject({ incomplete: "aborted", checked: 0 });
    await reconciler.close();
    await expect(reconciler.run()).rejects.toThrow(StayhookError);
  });
});

describe("run({ again: true })", () => {
  const told = (handled: readonly string[]) => handled.map((line) => line.split(" ")[0]).sort();

  test("tells each record of each account, or of one account", async () => {
    const { reconciler, handled } = await scene();
    for (let n = 0; n < 2; n += 1) {
      const report = await reconciler.run({ again: true });
      expect(report).toMatchObject({ checked: 3, changed: 0, accounts: { checked: 3, failed: 0 } });
      expect(told(handled.splice(0))).toEqual(ids);
    }
    expect(await reconciler.run({ account: "b2", again: true })).toMatchObject({ account: "b2", checked: 1 });
    expect(handled.splice(0)).toEqual(["b2 b2/booking:K-b2 booking.Request"]);
  });

  test("goes on with the accounts that are left, on another machine", async () => {
    const { sandbox, store, reconciler, handled, of } = await scene(ids, { concurrency: 1 });
    // An earlier run ended while this account was refused.
    const key = "a17/stayhook:reconciler";
    const { value } = (await store.getMeta(key))!;
    const again = { id: "earlier", after: null, done: false };
    await store.setMeta(key, JSON.stringify({ ...JSON.parse(value), again }), { expected: value });
    const stop = new AbortController();
    // Longer than a look at the passes, so that the run has not ended by then.
    sandbox.faults.set([{ delay: 100 }]);
    const running = reconciler.run({ again: true, signal: stop.signal });
    await eventually(() => expect(of("pass").length).toBeGreaterThan(0));
    stop.abort();
    sandbox.faults.clear();
    const begun = await running;
    expect(begun.incomplete).toBe("aborted");
    const other = vendor(sandbox, store, { concurrency: 1 });
    const rest = await other.reconciler.run({ again: true });
    expect(rest).toMatchObject({ checked: 3 - begun.checked, accounts: { checked: 3, failed: 0 } });
    await eventually(() => expect(told([...handled, ...other.handled])).toEqual(ids));
    // The run has come to its end, so the next one begins anew.
    expect(await other.reconciler.run({ again: true })).toMatchObject({ checked: 3 });
  });

  test("ends although one account is refused, which goes on by itself", async () => {
    const { sandbox, reconciler, tokens, handled } = await scene();
    tokens.set("a17", "revoked");
    const report = await reconciler.run({ again: true });
    expect(report).toMatchObject({ checked: 2, accounts: { checked: 2, failed: 1 } });
    expect(report).not.toHaveProperty("incomplete");
    tokens.set("a17", sandbox.account("a17").accessToken);
    expect(await reconciler.run({ account: "a17", again: true })).toMatchObject({ checked: 1 });
    expect(told(handled)).toEqual(ids);
  });

  test("is incomplete if another machine makes the pass of an account, and tells only this account then", async () => {
    const { reconciler, store, handled } = await scene();
    const key = "b2/stayhook:reconciler";
    const { value } = (await store.getMeta(key))!;
    const taken = JSON.stringify({ ...JSON.parse(value), owner: "another", lease: 60_000 });
    await store.setMeta(key, taken, { expected: value });
    expect(await reconciler.run({ again: true })).toMatchObject({ checked: 2, incomplete: "locked" });
    await store.setMeta(key, value, { expected: taken });
    expect(await reconciler.run({ again: true })).toMatchObject({ checked: 1, accounts: { checked: 3 } });
    expect(told(handled)).toEqual(ids);
  });
});

test("each account has its own place, and learns its own listings", async () => {
  const sandbox = await startSandbox({ accounts: ids });
  for (const id of ids) await sandbox.account(id).listings.create({ listingId: 7, status: "Published" });
  const { reconciler, store, of } = vendor(sandbox);
  await reconciler.run({ account: "a17" });
  expect(of("learned")).toMatchObject([{ account: "a17", ref: "a17/listing:7" }]);
  expect(await store.getMeta("a17/stayhook:reconciler")).toBeDefined();
  expect(await store.getMeta("b2/stayhook:reconciler")).toBeUndefined();
  expect(await store.getMeta("stayhook:reconciler")).toBeUndefined();
  await reconciler.run();
  expect(
    of("learned")
      .map(({ ref }) => ref)
      .sort(),
  ).toEqual(ids.map((id) => `${id}/listing:7`));
});

test("a booking of one account is not gone because another account has none", async () => {
  const { sandbox, webhooks, reconciler, handled, of, hidden } = await scene();
  await sandbox.account("c3").bookings.create({ status: "Confirmed", bookingCode: "C-2" });
  await reconciler.watch("C-2", { account: "c3" });
  hidden.add("c3 /v2/bookings/K-c3");
  await reconciler.run();
  expect(of("gone")).toMatchObject([{ account: "c3", ref: "c3/booking:K-c3" }]);
  const gone = () => handled.filter((line) => line.endsWith("gone"));
  await eventually(async () => {
    await webhooks.drain();
    expect(gone()).toEqual(["c3 c3/booking:K-c3 booking.gone"]);
  });
});

test("expectedEndpoints gives the URL of each account, as a promise too; a failure does not stop the pass", async () => {
  const url = (account: string) => `http://127.0.0.1:9/hooks?account=${account}`;
  const { sandbox, client, reconciler, of, alarms, lines } = await scene(ids, {
    expectedEndpoints: async (account) => {
      if (account === "c3") throw new Error("no row");
      return url(account);
    },
  });
  alarms.length = 0;
  for (const id of ids) await client.account(id).webhookConfig.ensure({ endpoints: url(id) });
  await client.account("b2").webhookConfig.ensure({ endpoints: url("a17") });
  expect((await reconciler.run()).accounts).toEqual({ checked: 3, failed: 0 });
  expect(of("drift")).toMatchObject([{ account: "b2", isActive: true }]);
  expect(alarms).toMatchObject([{ kind: "drift", account: "b2" }]);
  expect(lines.find(({ message }) => message.includes("expectedEndpoints"))).toMatchObject({ account: "c3" });
  expect(sandbox.accounts).toEqual(ids);
});

test("accounts are required with accountFrom, and refused without", async () => {
  const client = new StayhookClient({ baseUrl: "https://api.example", accessToken: () => "t" });
  const common = { client, verify: false as const, on: {}, logger: () => {}, autoStart: false };
  const many = createWebhookHandler({ ...common, store: memoryStore(), accountFrom: { query: "account" } });
  const one = createWebhookHandler({ ...common, store: memoryStore() });
  const accounts = () => ["a17"];
  expect(() => createReconciler(many)).toThrow(/accounts: is required/);
  expect(() => createReconciler(many, { accounts: ["a17"] as never })).toThrow(InvalidArgumentError);
  expect(() => createReconciler(many, { accounts, expectedEndpoints: "https://a.example" })).toThrow(
    /expectedEndpoints: must be a function/,
  );
  expect(() => createReconciler(one, { accounts })).toThrow(/accounts: needs a handler/);
  expect(() => createReconciler(one, { expectedEndpoints: () => "https://a.example" })).toThrow(
    InvalidArgumentError,
  );
  const single = createReconciler(one);
  await expect(single.run({ account: "a17" })).rejects.toThrow(InvalidArgumentError);
  await expect(single.watch("HX3K9", { account: "a17" })).rejects.toThrow(InvalidArgumentError);
  const multi = createReconciler(many, { accounts });
  await expect(multi.watch("HX3K9")).rejects.toThrow(InvalidArgumentError);
  await expect(multi.run({ account: "a/b" })).rejects.toThrow(InvalidArgumentError);
  await Promise.all([single, multi].map((each) => each.close()));
});

test("the hash spreads accounts evenly", () => {
  for (const name of [(n: number) => `a${n}`, (n: number) => String(n), (n: number) => `host-${n}.example`]) {
    const tenths = Array.from({ length: 10 }, () => 0);
    for (let n = 0; n < 1000; n += 1) tenths[Math.floor(hashOf(name(n)) * 10)]! += 1;
    expect(Math.min(...tenths)).toBeGreaterThan(60);
    expect(Math.max(...tenths)).toBeLessThan(140);
  }
});

test.each(["expectedEndpoints", "accounts"] as const)(
  "%s that never answers ends with the signal of a pass, and holds no close up",
  async (option) => {
    const asked = Promise.withResolvers<void>();
    const hanging = () => {
      asked.resolve();
      return new Promise<never>(() => {});
    };
    const { reconciler } = vendor(await startSandbox({ accounts: ["a17"] }), undefined, {
      [option]: hanging,
    });
    const controller = new AbortController();
    const passing = reconciler.run({ signal: controller.signal });
    await asked.promise;
    controller.abort();
    expect(await passing).toMatchObject({ incomplete: "aborted" });
    const last = reconciler.run();
    await reconciler.close();
    await last.catch(() => {});
  },
);
