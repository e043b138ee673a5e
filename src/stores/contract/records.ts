import type { RecordSnapshot } from "../event-store.ts";
import { check, equal } from "./expect.ts";
import { type Cases, failed, LONG, parked } from "./harness.ts";

const CONFIRMED = { status: "Confirmed", fields: { checkIn: "2026-07-01" } };

export const recording: Cases = {
  "records are in order of ref, and go on behind one": async ({ store, add, claim, done, settle }) => {
    for (const ref of ["listing:7", "booking:B", null, "booking:A", "booking:C"]) await add(ref);
    for (const claimed of await claim()) {
      if (claimed.ref === "booking:C") await settle(claimed, parked());
      else await done(claimed, claimed.ref === null ? undefined : `status of ${claimed.ref}`, { n: 1 });
    }
    const all = await collect(store.records());
    equal(
      "refs",
      all.map(({ ref }) => ref),
      ["booking:A", "booking:B", "listing:7"],
    );
    equal("the first one", all[0], await store.recordOf("booking:A"));
    equal("its snapshot", all[0]?.snapshot, { status: "status of booking:A", fields: { n: 1 } });
    const behind = await collect(store.records({ after: "booking:A" }));
    equal("those behind booking:A", behind, all.slice(1));
    equal("those behind the last", await collect(store.records({ after: "listing:7" })), []);
  },

  "records can be left early, and read again": async ({ store, add, claim, done }) => {
    for (let index = 0; index < 30; index++) await add(`booking:${index + 10}`);
    for (const claimed of await claim()) await done(claimed, "Confirmed");
    for await (const { ref } of store.records()) {
      equal("the first ref", ref, "booking:10");
      break;
    }
    equal("how many there are", (await collect(store.records())).length, 30);
  },

  "records gives more than 500 of them, each once": async ({ store }) => {
    const count = 520;
    await Promise.all(
      Array.from({ length: count }, (_, index) => store.learn(`booking:${index}`, CONFIRMED)),
    );
    const refs = (await collect(store.records())).map(({ ref }) => ref);
    equal(
      "how many records came, and how many different ones",
      [refs.length, new Set(refs).size],
      [count, count],
    );
  },

  "learn writes a first snapshot": async ({ store, add, claimOne }) => {
    equal("learn", await store.learn("booking:A", CONFIRMED), true);
    const record = (await store.recordOf("booking:A"))!;
    equal("the record", [record.ref, record.snapshot, record.sequence], ["booking:A", CONFIRMED, 1]);
    await add("booking:A");
    const { previous, sequence } = await claimOne();
    equal("previous and sequence, as claimed", [previous, sequence], [CONFIRMED, 1]);
  },

  "learn of the known snapshot renews seenAt alone": async ({ store, tick }) => {
    const fields = { a: 1, b: null, c: "x" };
    await store.learn("booking:A", { status: "Request", fields });
    const before = (await store.recordOf("booking:A"))!;
    await tick();
    equal(
      "learn",
      await store.learn("booking:A", { status: "Request", fields: { c: "x", b: null, a: 1 } }),
      true,
    );
    const { seenAt, ...rest } = (await store.recordOf("booking:A"))!;
    equal("the record", rest, { ref: before.ref, snapshot: before.snapshot, sequence: 1 });
    check(seenAt > before.seenAt, "seenAt: expected a later one, after the same snapshot was learned again");
  },

  "learn changes no known snapshot": async ({ store, add, claimOne, done }) => {
    await add("booking:A");
    await done(await claimOne(), "Request", { nights: 1, note: null });
    const before = await store.recordOf("booking:A");
    for (const snapshot of [
      { status: "Confirmed", fields: { nights: 1, note: null } },
      { status: "Request", fields: { nights: 2, note: null } },
      { status: "Request", fields: { nights: "1", note: null } },
      { status: "Request", fields: { nights: 1, note: null, more: true } },
      { status: "Request", fields: { nights: 1 } },
      { status: "Request", fields: { nights: 1, other: null } },
    ]) {
      equal(`learn of ${JSON.stringify(snapshot)}`, await store.learn("booking:A", snapshot), false);
    }
    equal("the record", await store.recordOf("booking:A"), before);
  },

  "learn writes no first snapshot while an event of the record waits or is parked": async (bench) => {
    const { store, add, claimOne, done, settle } = bench;
    const expectRefused = async (what: string): Promise<void> => {
      equal(`learn, with an event that is ${what}`, await store.learn("booking:A", CONFIRMED), false);
      equal("recordOf", await store.recordOf("booking:A"), undefined);
    };
    await add("booking:A");
    await expectRefused("pending");
    const claim = await claimOne();
    await expectRefused("processing");
    await settle(claim, failed(LONG));
    await expectRefused("retrying");
    await store.replay({ ref: "booking:A" });
    await settle(await claimOne(), parked());
    await expectRefused("parked");
    await store.replay({ ref: "booking:A" });
    await done(await claimOne());
    equal("learn, with a done event alone", await store.learn("booking:A", CONFIRMED), true);
  },

  "of many learning at once, one snapshot is kept": async ({ store }) => {
    const statuses = ["Request", "Confirmed", "Declined", "Cancelled", "Expired", "Paid"];
    const answers = await Promise.all(
      statuses.map((status) => store.learn("booking:A", { status, fields: {} })),
    );
    equal("how many said so", answers.filter(Boolean).length, 1);
    const record = await store.recordOf("booking:A");
    equal("the kept one", [record?.snapshot.status, record?.sequence], [statuses[answers.indexOf(true)], 1]);
  },

  "a learned snapshot is pruned as any other": async ({ store }) => {
    await store.learn("booking:A", CONFIRMED);
    equal("pruneRecords, too young", await store.pruneRecords({ age: LONG, limit: 10 }), 0);
    equal("pruneRecords, of any age", await store.pruneRecords({ age: 0, limit: 10 }), 1);
    equal("recordOf", await store.recordOf("booking:A"), undefined);
  },
};

async function collect(records: AsyncIterable<RecordSnapshot>): Promise<RecordSnapshot[]> {
  const all: RecordSnapshot[] = [];
  for await (const record of records) all.push(record);
  return all;
}
