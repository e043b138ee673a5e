import { type Cases, failed, LONG, parked, unreachable } from "./harness.ts";
import { between, equal } from "./expect.ts";

export const replaying: Cases = {
  "a done event can be replayed": async ({ store, add, claimOne, claimLater, settle, done, get }) => {
    const event = await add("booking:A");
    await settle(await claimOne(), failed(0));
    await done(await claimLater(0), "Confirmed");
    equal("replay", await store.replay(event.eventId), true);
    const { state, attempts, doneAt, reason } = await get(event);
    equal(
      "the event",
      { state, attempts, doneAt, reason },
      { state: "pending", attempts: 0, doneAt: null, reason: null },
    );
    const claim = await claimOne();
    const { attempts: now, replayed, previousStatus, sequence } = claim;
    equal(
      "the claim",
      { now, replayed, previousStatus, sequence },
      { now: 1, replayed: true, previousStatus: "Confirmed", sequence: 1 },
    );
    await settle(claim, failed(0));
    const again = await claimLater(0);
    equal("the claim after it", [again.attempts, again.replayed], [2, true]);
    await done(again, "Confirmed");
    equal("its state", (await get(event)).state, "done");
  },

  "a parked event can be replayed": async ({ store, add, claimOne, claimLater, settle, get }) => {
    const event = await add("booking:A");
    await settle(await claimOne(), failed(0));
    await settle(await claimLater(0), unreachable(0));
    await settle(await claimLater(0), parked());
    equal("replay", await store.replay(event.eventId), true);
    const { state, attempts, reason, dueAt } = await get(event);
    const expected = { state: "pending", attempts: 0, reason: null, due: true };
    equal("the event", { state, attempts, reason, due: dueAt instanceof Date }, expected);
    const { attempts: now, outages, outageFor, replayed } = await claimOne();
    equal(
      "the claim",
      { now, outages, outageFor, replayed },
      { now: 1, outages: 0, outageFor: 0, replayed: true },
    );
  },

  "a replayed event's outages are timed anew": async (bench) => {
    const { store, add, claimOne, claimLater, settle, sleep } = bench;
    const event = await add("booking:A");
    await settle(await claimOne(), unreachable(0));
    await settle(await claimLater(0), parked());
    await sleep(2);
    const start = performance.now();
    await store.replay(event.eventId);
    await settle(await claimOne(), unreachable(0));
    const { outages, outageFor } = await claimLater(0);
    equal("outages", outages, 1);
    between("outageFor", outageFor, 0, Math.ceil(performance.now() - start) + 5);
  },

  "a replayed event is under its record's lock": async ({ store, add, claim, claimOne, done, settle }) => {
    const event = await add("booking:A");
    await settle(await claimOne(), parked());
    await add("booking:A");
    const held = await claimOne();
    equal("replay", await store.replay(event.eventId), true);
    equal("claim", await claim(), []);
    await done(held, "Confirmed");
    equal("the claimed one", (await claimOne()).eventId, event.eventId);
  },

  "a replay ends once, and is pruned as any other": async ({ store, add, claimOne, done, get }) => {
    const event = await add(null);
    await done(await claimOne());
    await store.replay(event.eventId);
    equal("prune, while it waits", await store.prune({ state: "done", age: 0, limit: 10 }), 0);
    equal("counts", await store.counts(), { pending: 1, processing: 0, retrying: 0, done: 0, parked: 0 });
    await done(await claimOne());
    equal("its state", (await get(event)).state, "done");
    equal("prune", await store.prune({ state: "done", age: 0, limit: 10 }), 1);
  },

  "a retrying event is due at once": async ({ store, add, claimOne, settle, get }) => {
    const event = await add("booking:A");
    await settle(await claimOne(), failed(LONG));
    equal("replay", await store.replay(event.eventId), true);
    equal("nextDue", await store.nextDue(), 0);
    equal("its state", (await get(event)).state, "retrying");
    const { attempts, replayed } = await claimOne();
    equal("attempts go on", { attempts, replayed }, { attempts: 2, replayed: false });
  },

  "a retrying event's record waits no longer": async ({ store, add, claimOne, settle }) => {
    const event = await add("booking:A");
    await settle(await claimOne(), unreachable(LONG));
    equal("replay", await store.replay(event.eventId), true);
    const { attempts, outages } = await claimOne();
    equal("attempts and outages go on", { attempts, outages }, { attempts: 1, outages: 1 });
  },

  "a pending event's record waits no longer": async ({ store, add, claimOne, settle }) => {
    await add("booking:A");
    const behind = await add("booking:A");
    await settle(await claimOne(), unreachable(LONG));
    equal("replay", await store.replay(behind.eventId), true);
    const { eventId, replayed } = await claimOne();
    equal("the claimed one", { eventId, replayed }, { eventId: behind.eventId, replayed: false });
  },

  "a parked or done event's record waits no longer": async ({ store, add, claimOne, settle, done }) => {
    for (const state of ["parked", "done"] as const) {
      const ref = `booking:${state}`;
      const ended = await add(ref);
      const claim = await claimOne();
      await (state === "done" ? done(claim) : settle(claim, parked()));
      await add(ref);
      await settle(await claimOne(), unreachable(LONG));
      equal("replay", await store.replay(ended.eventId), true);
      const { eventId, replayed } = await claimOne({ limit: 1 });
      equal("the claimed one", { eventId, replayed }, { eventId: ended.eventId, replayed: true });
    }
  },

  "what is processed, or unknown, cannot be replayed": async ({ store, add, claimOne, done, newEvent }) => {
    equal("an unknown one", await store.replay(newEvent(null).eventId), false);
    const event = await add("booking:A");
    const claim = await claimOne();
    equal("one that is processed", await store.replay(event.eventId), false);
    equal("renew of its lease", (await store.renew([claim], LONG)).length, 1);
    await done(claim);
  },

  "replayParked replays all that is parked": async ({ store, add, claim, claimOne, settle, done }) => {
    equal("in an empty store", await store.replayParked(), 0);
    for (const ref of ["booking:A", "booking:B", null]) await add(ref);
    for (const claimed of await claim()) await settle(claimed, parked());
    const handled = await add("booking:C");
    await done(await claimOne());
    equal("how many were replayed", await store.replayParked(), 3);
    const claims = await claim();
    equal(
      "attempts and replayed",
      claims.map(({ attempts, replayed }) => [attempts, replayed]),
      Array(3).fill([1, true]),
    );
    equal("the done one", (await store.get(handled.eventId))?.state, "done");
    equal("again", await store.replayParked(), 0);
  },

  "replayParked can be for one reason": async ({ store, add, claimOne, settle }) => {
    const one = await add("booking:A");
    await settle(await claimOne(), parked("not-found"));
    await add("booking:B");
    await settle(await claimOne(), parked("callback"));
    equal("how many were replayed", await store.replayParked({ reason: "not-found" }), 1);
    equal("the replayed one", (await claimOne()).eventId, one.eventId);
  },

  "replayParked can be for what was received before a time": async (bench) => {
    const { store, add, claimOne, settle, get, tick } = bench;
    const older = await add("booking:A");
    await settle(await claimOne(), parked());
    await tick();
    const newer = await add("booking:B");
    await settle(await claimOne(), parked());
    const before = (await get(newer)).receivedAt;
    equal("for another reason", await store.replayParked({ before, reason: "denied" }), 0);
    equal("how many were replayed", await store.replayParked({ before }), 1);
    equal("the replayed one", (await claimOne()).eventId, older.eventId);
  },
};
