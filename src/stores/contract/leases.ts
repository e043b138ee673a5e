import { between, check, equal } from "./expect.ts";
import { type Cases, failed, handled, LONG, parked, unreachable } from "./harness.ts";

export const leases: Cases = {
  "an event whose lease has ended can be claimed again, as another attempt": async (bench) => {
    const { add, claimOne, claimLater, unit } = bench;
    await add("booking:A");
    const start = performance.now();
    const first = await claimOne({ leaseDuration: 2 * unit });
    const second = await claimLater(start + 2 * unit);
    equal("the event", second.eventId, first.eventId);
    equal("its attempts", second.attempts, 2);
    check(second.lease !== first.lease, "lease: expected a new token, got the old one");
  },

  "an event without a record can be claimed again, too": async ({ add, claimOne, claimLater, unit }) => {
    await add(null);
    const start = performance.now();
    const { eventId } = await claimOne({ leaseDuration: 2 * unit });
    const again = await claimLater(start + 2 * unit, { eventId });
    equal("its attempts", again.attempts, 2);
  },

  "a lost lease records nothing": async ({ store, add, claimOne, claimLater, settle, get, unit }) => {
    const event = await add("booking:A");
    const lost = await claimOne({ leaseDuration: unit });
    const held = await claimLater(0);
    for (const outcome of [
      handled(lost, "Cancelled", { lost: true }),
      failed(0),
      unreachable(0),
      parked(),
      { state: "released" } as const,
    ]) {
      equal(`settle as ${outcome.state} with the lost lease`, await store.settle(lost, outcome), false);
    }
    equal("renew of the lost lease", await store.renew([lost], LONG), []);
    const { state, attempts, type, lastError } = await get(event);
    equal(
      "the event",
      { state, attempts, type, lastError },
      { state: "processing", attempts: 2, type: null, lastError: null },
    );
    equal("the record's snapshot", await store.recordOf("booking:A"), undefined);
    await settle(held, handled(held, "Confirmed"));
    const record = await store.recordOf("booking:A");
    equal("the snapshot of the attempt that held the lease", record?.snapshot.status, "Confirmed");
  },

  "a lease is lost to another event of its record, too": async ({
    store,
    add,
    claimOne,
    claimLater,
    done,
    unit,
  }) => {
    const first = await add("booking:A");
    const second = await add("booking:A");
    const lost = await claimOne({ leaseDuration: unit });
    equal("the first to be claimed", lost.eventId, first.eventId);
    const held = await claimLater(0, { eventId: second.eventId });
    equal("renew of the lost lease", await store.renew([lost], LONG), []);
    const settled = await store.settle(lost, handled(lost, "Cancelled"));
    equal("settle with the lost lease", settled, false);
    await done(held, "Confirmed");
    const again = await claimOne();
    equal("the first one, again", [again.eventId, again.attempts], [first.eventId, 2]);
    equal("the status before it", again.previous?.status, "Confirmed");
  },

  "a lease that is renewed goes on": async ({ store, add, claim, claimOne, done, get, sleep, unit }) => {
    const event = await add("booking:A");
    await add("booking:A");
    const claimed = await claimOne({ leaseDuration: 10 * unit });
    const before = (await get(event)).dueAt;
    const renewed = await store.renew([claimed], LONG);
    equal(
      "the claims that are still held",
      renewed.map(({ eventId, lease }) => [eventId, lease]),
      [[claimed.eventId, claimed.lease]],
    );
    between(
      "ms by which its dueAt moved",
      Number((await get(event)).dueAt) - Number(before),
      LONG - 10 * unit - 1,
      LONG + 30_000,
    );
    await sleep(11);
    equal("claim, after the first lease's end", await claim(), []);
    await done(renewed[0]!);
  },

  "renew resolves to those still held": async ({ store, add, claim, done, settle }) => {
    for (const ref of ["booking:A", "booking:B", null, null]) await add(ref);
    const claims = await claim();
    const [a, b, c, d] = claims.sort((x, y) => (x.eventId < y.eventId ? -1 : 1));
    await done(a!);
    await settle(c!, { state: "released" });
    const renewed = (await store.renew(claims, LONG)).map(({ eventId }) => eventId).sort();
    equal("the renewed events", renewed, [b!.eventId, d!.eventId]);
    equal("renew of none", await store.renew([], LONG), []);
  },

  "an attempt ends once": async ({ store, add, claim, claimOne, done, settle, get }) => {
    const event = await add("booking:A");
    const finished = await claimOne();
    await done(finished, "Confirmed");
    equal("settle, again", await store.settle(finished, { state: "released" }), false);
    equal("its state", (await get(event)).state, "done");
    equal("claim", await claim(), []);

    await add("booking:B");
    const given = await claimOne();
    await settle(given, { state: "released" });
    const taken = await claimOne();
    const late = await store.settle(given, handled(given));
    equal("settle with the lease that was given back", late, false);
    equal("the claims that are still held", (await store.renew([given, taken], LONG)).length, 1);
  },

  "of many settling one lease at once, one does": async ({ store, add, claimOne }) => {
    await add("booking:A");
    const claimed = await claimOne();
    const answers = await Promise.all(
      ["Confirmed", "Cancelled", "Declined", "Request"].map((status) =>
        store.settle(claimed, handled(claimed, status)),
      ),
    );
    equal("how many of them did", answers.filter(Boolean).length, 1);
    equal("the record's sequence", (await store.recordOf("booking:A"))?.sequence, 1);
  },

  "a lease opens its own event only": async ({ store, add, newEvent, claim, done }) => {
    await add("booking:A");
    await add("booking:B");
    const claims = await claim();
    const [a, b] = claims as [(typeof claims)[0], (typeof claims)[0]];
    const mixed = { ...a, lease: b.lease };
    equal("settle with another event's lease", await store.settle(mixed, { state: "released" }), false);
    equal("renew with another event's lease", await store.renew([mixed], LONG), []);
    const behind = { ...a, ...(await add("booking:A")) };
    equal("settle of another event of its record", await store.settle(behind, { state: "released" }), false);
    equal("renew of another event of its record", await store.renew([behind], LONG), []);
    const unknown = { ...a, ...newEvent("booking:A") };
    equal("settle of an unknown event", await store.settle(unknown, { state: "released" }), false);
    equal("renew of an unknown event", await store.renew([unknown], LONG), []);
    await done(a);
    await done(b);
  },
};
