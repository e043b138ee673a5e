// A record that the user erases stays erased, whatever a pass, a run with `again` or a call of `watch` knew of it before.
// The erasure comes at each step of them in turn: before each call of the store, each read of the platform and each record
// of a page.

import { randomUUID } from "node:crypto";
import {
  createWebhookHandler,
  memoryStore,
  StayhookClient,
  type WebhookEvent,
  type WebhookHandler,
} from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import type { EventStore } from "stayhook/store";
import { describe, expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { platformOf } from "../webhooks/support.ts";

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
/** More steps than any run has. */
const MOST_STEPS = 1000;

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const value of values) found.push(value);
  return found;
}

/** Calls `step` before each call of the store, and before each record of a page, which was read as a whole before. */
function stepping(store: EventStore, step: (name: string) => Promise<void>): EventStore {
  return new Proxy(store, {
    get(target, name: string) {
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== "function" || name === "subscribe" || name === "close")
        return typeof member === "function" ? member.bind(target) : member;
      const call = member.bind(target) as (...args: unknown[]) => unknown;
      if (name === "snapshots")
        return async function* (...args: unknown[]) {
          await step("snapshots");
          const page = await all(call(...args) as AsyncIterable<unknown>);
          for (const known of page) {
            await step("record");
            yield known;
          }
        };
      return async (...args: unknown[]) => {
        await step(name);
        return call(...args);
      };
    },
  });
}

interface Scene {
  readonly account?: string;
  /** Erases something. @returns `false` if an attempt holds it */
  readonly erase: (app: Pick<App, "raw" | "webhooks">) => Promise<boolean>;
  /** At which step the erasure comes, or the first one after it at which it can. */
  readonly at: number;
}

type App = ReturnType<typeof appOf>;

function appOf({ account, erase, at }: Scene) {
  const raw = memoryStore();
  const platform = platformOf();
  const told: string[] = [];
  /** The steps so far. */
  const steps: string[] = [];
  let [isOn, isErased] = [false, false];
  const tryToErase = async (): Promise<void> => {
    if (isErased || !(await erase({ raw, webhooks }))) return;
    isErased = true;
    told.length = 0;
  };
  const step = async (name: string): Promise<void> => {
    if (!isOn || isErased) return;
    if (steps.length + 1 >= at) {
      // What erases calls the store, too.
      isOn = false;
      await tryToErase();
      isOn = true;
    }
    if (!isErased) steps.push(name);
  };
  const client = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: account === undefined ? "token" : () => "token",
    fetch: async (url: string, init: RequestInit) => {
      await step("fetch");
      return platform.fetch(url, init);
    },
  });
  const options = {
    client,
    store: stepping(raw, step),
    verify: false,
    logger: silent,
    on: { fallback: ({ ref }: WebhookEvent) => void told.push(ref!) },
  } as const;
  const webhooks =
    account === undefined
      ? createWebhookHandler(options)
      : (createWebhookHandler({
          ...options,
          accountFrom: { query: "account" },
        }) as unknown as WebhookHandler);
  const reconciler = createReconciler(webhooks, account === undefined ? {} : { accounts: () => [account] });
  onTestFinished(async () => {
    await reconciler.close();
    await webhooks.close({ timeout: 0 });
  });
  return {
    ...{ raw, platform, webhooks, reconciler, told, steps },
    /** Erases within `run`, or right after it. @returns whether it was within */
    eraseDuring: async (run: () => Promise<unknown>): Promise<boolean> => {
      isOn = true;
      await run();
      isOn = false;
      const wasWithin = isErased;
      await eventually(async () => {
        await tryToErase();
        expect(isErased).toBe(true);
      });
      await webhooks.drain();
      return wasWithin;
    },
    notify: (about: object) =>
      webhooks.receive({
        method: "POST",
        url: account === undefined ? "/" : `/?account=${account}`,
        headers: {},
        body: { eventId: randomUUID(), timestamp: new Date().toISOString(), ...about },
      }),
    known: async () => (await all(raw.snapshots())).map(({ ref }) => ref).sort(),
  };
}

const dates = { checkIn: "2099-07-01", checkOut: "2099-07-05" };

/** Two bookings and two listings are known, and a pass has seen them. One of each has changed since. */
async function withKnown({ platform, notify, webhooks, reconciler, told }: App): Promise<void> {
  const list = (first: string) => {
    const rows = [first, "Published"].map((status, index) => ({ listingId: index + 1, status }));
    platform.answer("listings", { status: 200, body: rows });
  };
  for (const code of ["A", "B"]) platform.booking(code, "Confirmed", { listingId: 1, ...dates });
  for (const id of [1, 2]) platform.listing(id, "Published");
  list("Published");
  for (const bookingCode of ["A", "B"]) await notify({ bookingCode });
  for (const listingId of [1, 2]) await notify({ listingId });
  await webhooks.drain();
  await reconciler.run();
  told.length = 0;
  platform.booking("A", "Cancelled", { listingId: 1, ...dates });
  platform.listing(1, "Hidden");
  list("Hidden");
}

/** Runs `check` with an erasure at each step, until one comes after the last step. */
async function atEachStep(check: (at: number) => Promise<boolean>): Promise<number> {
  let at = 1;
  while (await check(at)) {
    at += 1;
    if (at > MOST_STEPS) throw new Error("no end of the steps");
  }
  return at;
}

const erased = ["booking:A", "listing:1"];

async function eraseBoth({ raw }: Pick<App, "raw">): Promise<boolean> {
  try {
    await Promise.all(erased.map((ref) => raw.erase(ref)));
    return true;
  } catch {
    return false;
  }
}

describe.each([
  ["a pass", {}],
  ["a run with again", { again: true }],
])("%s", (_, run) => {
  test("leaves out what is erased meanwhile, and a later list brings the listing back", async () => {
    const steps = await atEachStep(async (at) => {
      const app = appOf({ erase: eraseBoth, at });
      await withKnown(app);
      const wasWithin = await app.eraseDuring(() => app.reconciler.run(run));
      const ofErased = () => app.told.filter((ref) => erased.includes(ref));
      // A pass that has read no page yet meets the listing in its list, as any later one does.
      const isHeld = app.steps.includes("snapshots");
      if (isHeld) expect({ at, known: await app.known() }).toEqual({ at, known: ["booking:B", "listing:2"] });
      expect({ at, told: ofErased() }).toEqual({ at, told: isHeld ? [] : ["listing:1"] });
      await app.reconciler.run(run);
      await app.webhooks.drain();
      expect({ at, known: await app.known() }).toEqual({
        at,
        known: ["booking:B", "listing:1", "listing:2"],
      });
      expect(ofErased()).toContain("listing:1");
      await app.notify({ bookingCode: "A" });
      await app.webhooks.drain();
      expect(app.told).toContain("booking:A");
      return wasWithin;
    });
    expect(steps).toBeGreaterThan(20);
  });

  test.each([404, 403])("leaves out what is erased while the platform answers %i for it", async (status) => {
    const steps = await atEachStep(async (at) => {
      const app = appOf({ erase: async ({ raw }) => eraseBoth({ raw }), at });
      await withKnown(app);
      for (const id of ["A", "1"]) app.platform.answer(id, { status });
      const wasWithin = await app.eraseDuring(() => app.reconciler.run(run));
      if (!app.steps.includes("snapshots")) return wasWithin;
      // The note of a refusal may have been on its way to the store. It reads nothing when it is due.
      await app.raw.replay({ state: "scheduled" });
      await app.webhooks.drain();
      expect({ at, known: await app.known() }).toEqual({ at, known: ["booking:B", "listing:2"] });
      expect({ at, told: app.told.filter((ref) => erased.includes(ref)) }).toEqual({ at, told: [] });
      return wasWithin;
    });
    expect(steps).toBeGreaterThan(20);
  });

  test("leaves out an account that is erased meanwhile", async () => {
    const erase = async ({ webhooks }: Pick<App, "webhooks">) =>
      (await webhooks.eraseAccount("a17")).processing === 0;
    const steps = await atEachStep(async (at) => {
      const app = appOf({ account: "a17", erase, at });
      await withKnown(app);
      const wasWithin = await app.eraseDuring(() => app.reconciler.run(run));
      // A pass that has no lock yet meets the listings in its list, as any later one does.
      const locks = app.steps.filter((name) => name === "setMeta").length;
      if (locks >= ("again" in run ? 2 : 1))
        expect({ at, known: await app.known(), told: app.told }).toEqual({ at, known: [], told: [] });
      return wasWithin;
    });
    expect(steps).toBeGreaterThan(20);
  });
});

test("watch brings an erased booking back once, and forgets it when its event is stored", async () => {
  const { platform, raw, reconciler, webhooks, told, known } = appOf({
    erase: async () => false,
    at: MOST_STEPS,
  });
  platform.booking("A", "Confirmed", { listingId: 1, ...dates });
  for (let erasures = 0; erasures < 3; erasures += 1) {
    await reconciler.watch("A");
    await reconciler.run();
    expect(told).toEqual(["booking:A"]);
    expect(await known()).toEqual(["booking:A"]);
    expect(await raw.erase("booking:A")).toBe(1);
    expect(await raw.erase("booking:A")).toBe(0);
    told.length = 0;
    await reconciler.run();
    await webhooks.drain();
    expect({ told, known: await known() }).toEqual({ told: [], known: [] });
  }
});

test("an event for a record that was erased reads nothing in another store either, also if it is replayed", async () => {
  const { platform, raw, reconciler, webhooks } = appOf({ erase: async () => false, at: MOST_STEPS });
  platform.booking("A", "Confirmed", { listingId: 1, ...dates });
  await reconciler.watch("A");
  await webhooks.drain();
  platform.booking("A", "Cancelled", { listingId: 1, ...dates });
  await webhooks.close();
  await reconciler.run();
  const [event] = await raw.list({ ref: "booking:A", limit: 1 });
  expect(event).toMatchObject({ source: "reconcile", state: "pending" });
  const moved = appOf({ erase: async () => false, at: MOST_STEPS });
  await moved.raw.restore({ events: [event!], snapshots: [] });
  for (const done of [1, 2]) {
    expect(await moved.webhooks.drain()).toEqual({ done: 1, failed: 0 });
    expect(await moved.raw.get(event!.eventId)).toMatchObject({ state: "done", type: "booking.unknown" });
    if (done === 1) await moved.raw.replay({ eventId: event!.eventId });
  }
  expect({ reads: moved.platform.reads, told: moved.told }).toEqual({ reads: [], told: [] });
});
