import { between, check, equal } from "./expect.ts";
import { type Cases, LONG, unreachable } from "./harness.ts";

/** Events that are added with `dueIn`. */
export const delaying: Cases = {
  "an event with dueIn is claimed once it is due": async (bench) => {
    const { store, newEvent, claim, claimLater, get, unit } = bench;
    const late = newEvent("booking:A", { source: "recheck" });
    equal("add", await store.add(late, { dueIn: LONG }), "added");
    const { state, receivedAt, dueAt } = await get(late);
    equal(
      "its state, and ms until it is due",
      [state, Number(dueAt) - Number(receivedAt)],
      ["pending", LONG],
    );
    equal("claim", await claim(), []);
    equal("claim by its id", await claim({ eventId: late.eventId }), []);
    between("nextDue", await store.nextDue(), LONG - 30_000, LONG);
    const soon = newEvent("booking:A");
    const start = performance.now();
    equal("add", await store.add(soon, { dueIn: 3 * unit }), "added");
    const wait = await store.nextDue();
    check(wait !== undefined && wait <= 3 * unit, `nextDue: expected at most ${3 * unit}, got ${wait}`);
    const { attempts, eventId } = await claimLater(start + 3 * unit);
    equal("the claim", [eventId, attempts], [soon.eventId, 1]);
  },

  "with dueIn 0 it is due at once": async ({ store, newEvent, claimOne }) => {
    const event = newEvent("booking:A");
    equal("add", await store.add(event, { dueIn: 0 }), "added");
    equal("nextDue", await store.nextDue(), 0);
    equal("the claimed event", (await claimOne()).eventId, event.eventId);
  },

  "a known id is a duplicate, with dueIn, too": async ({ store, add, newEvent, claimOne }) => {
    const event = await add("booking:A");
    equal("add", await store.add(event, { dueIn: LONG }), "duplicate");
    equal("add with another ref", await store.add({ ...event, ref: null }, { dueIn: LONG }), "conflict");
    equal("the claimed event", (await claimOne()).eventId, event.eventId);
    const later = newEvent("booking:B");
    equal("add", await store.add(later, { dueIn: LONG }), "added");
    equal("add, without dueIn", await store.add(later), "duplicate");
    between("nextDue", await store.nextDue(), 1, LONG);
  },

  "an event with dueIn ends no wait of its record": async ({
    store,
    add,
    newEvent,
    claim,
    claimOne,
    settle,
  }) => {
    const first = await add("booking:A");
    await settle(await claimOne(), unreachable(LONG));
    equal("add", await store.add(newEvent("booking:A"), { dueIn: 0 }), "added");
    equal("claim", await claim(), []);
    between("nextDue", await store.nextDue(), 1, LONG);
    await add("booking:A");
    equal("the claimed event, after one without dueIn", (await claimOne()).eventId, first.eventId);
  },

  "a wait is at most 366 days": async ({ store, newEvent, add, claimOne, settle, get }) => {
    const most = 366 * 24 * 60 * 60_000;
    for (const dueIn of [1e300, Number.MAX_SAFE_INTEGER, Number.POSITIVE_INFINITY]) {
      const event = newEvent(null);
      equal("add", await store.add(event, { dueIn }), "added");
      const { dueAt, receivedAt } = await get(event);
      equal(`ms until an event with dueIn ${dueIn} is due`, Number(dueAt) - Number(receivedAt), most);
      const retried = await add("booking:A");
      await settle(await claimOne(), { ...unreachable(dueIn), counted: true });
      const retry = await get(retried);
      between(
        `ms until a retry in ${dueIn} is due`,
        Number(retry.dueAt) - Number(retry.receivedAt),
        most,
        most + 30_000,
      );
      equal("discard", await store.discard({ ref: "booking:A" }), 1);
    }
    between("nextDue", await store.nextDue(), most - 30_000, most);
  },

  "oldestWaiting counts it once it is due, by receivedAt": async (bench) => {
    const { store, newEvent, add, eventually, sleep, unit } = bench;
    await store.add(newEvent("booking:B"), { dueIn: LONG });
    equal("oldestWaiting, before it is due", await store.oldestWaiting(), undefined);
    const start = performance.now();
    await store.add(newEvent("booking:A"), { dueIn: 3 * unit });
    const added = performance.now();
    const first = await eventually("an age", () => store.oldestWaiting());
    check(first >= 3 * unit - 5, `oldestWaiting: expected the age since the event was added, got ${first}`);
    await sleep(1);
    const least = Math.floor(performance.now() - added) - 5;
    const age = await store.oldestWaiting();
    between("oldestWaiting, once it is due", age, least, Math.ceil(performance.now() - start) + 5);
    equal("discard", await store.discard({ ref: "booking:A" }), 1);
    equal("oldestWaiting, with one that is not due", await store.oldestWaiting(), undefined);
    await add("booking:C");
    between("oldestWaiting, with a new one", await store.oldestWaiting(), 0, 30_000);
  },

  "it is no hindrance to the events behind it": async ({ store, newEvent, add, claimOne }) => {
    equal("add", await store.add(newEvent("booking:A"), { dueIn: LONG }), "added");
    const event = await add("booking:A");
    equal("the claimed event", (await claimOne()).eventId, event.eventId);
  },

  "replay and discard treat it as pending": async ({ store, newEvent }) => {
    const event = newEvent("booking:A");
    await store.add(event, { dueIn: LONG });
    equal("replay", await store.replay({ eventId: event.eventId }), 0);
    between("nextDue", await store.nextDue(), 1, LONG);
    equal("discard", await store.discard({ eventId: event.eventId }), 1);
    equal("nextDue, once discarded", await store.nextDue(), undefined);
  },

  "once due it has the place of its arrival": async ({
    store,
    newEvent,
    add,
    claimOne,
    settle,
    sleep,
    tick,
    unit,
  }) => {
    const first = newEvent("booking:A");
    await store.add(first, { dueIn: unit });
    await tick();
    const second = await add("booking:A");
    await tick();
    const other = await add("booking:B");
    await sleep(2);
    const oldest = await claimOne({ limit: 1 });
    equal("the oldest", oldest.eventId, first.eventId);
    await settle(oldest, { state: "released" });
    equal("the newest record", (await claimOne({ limit: 1, order: "newest" })).eventId, other.eventId);
    const left = await claimOne({ limit: 1, order: "newest" });
    equal("the oldest of the record that is left", left.eventId, first.eventId);
    equal("the one behind it", (await store.get(second.eventId))?.state, "pending");
  },
};
