// The cases of `except` and `only`.

import type { NextDueOptions } from "../store-options.ts";
import { type Bench, between, type Cases, check, equal, LONG, rejects } from "./harness.ts";

/** Keys that are easily taken for each other. An event without a record has its id as the key. */
const REFS = [
  "a1/booking:A",
  "a1/listing:A",
  "a17/booking:A",
  "a17/booking:AB",
  "A17/booking:A",
  "a_7/booking:A",
  "a%7/booking:A",
  "a\\7/booking:A",
  "booking/booking:A",
  "booking:A",
  "booking:A/booking:B",
  "booking:é",
  "booking:\0",
  "listing:A",
  "xa1/booking:A",
];

/** Adds an event of each record, and one of account a17 and one of nobody that have no record. Returns their keys. */
async function addAll({ add, newEvent }: Bench): Promise<string[]> {
  const keys: string[] = [];
  for (const ref of REFS) keys.push((await add(ref)).ref!);
  for (const account of ["a17/", ""]) {
    const eventId = account + newEvent(null).eventId;
    keys.push((await add(null, { eventId })).eventId);
  }
  return keys;
}

/** Claims, and fails unless all records that fit the options are claimed, and no other. The claims are then released. */
async function takes({ claim, store, settle }: Bench, keys: readonly string[], options: NextDueOptions) {
  const begins = (key: string, texts: readonly string[] = []) => texts.some((text) => key.startsWith(text));
  const { except, only } = options;
  const fits = keys.filter((key) => !begins(key, except) && (only === undefined || begins(key, only)));
  const shown = JSON.stringify(options).slice(0, 120);
  equal(`nextDue(${shown})`, await store.nextDue(options), fits.length === 0 ? undefined : 0);
  const claims = await claim(options);
  equal(
    `keys that claim(${shown}) took`,
    claims.map(({ ref, eventId }) => ref ?? eventId).sort(),
    fits.sort(),
  );
  for (const each of claims) await settle(each, { state: "released" });
}

async function takesEach(bench: Bench, given: readonly NextDueOptions[]): Promise<void> {
  const keys = await addAll(bench);
  for (const options of given) await takes(bench, keys, options);
}

/** Beginnings of one kind and of several, with those that would be wrong as patterns or in another case. */
const BEGINNINGS = [
  ["a1/"],
  ["a17/"],
  ["a17/booking:", "a17/listing:"],
  ["a17/booking:A"],
  ["a17/booking:AB", "a1/", "a1/booking:"],
  ["a_7/", "a%7/"],
  ["a\\7/", "%", "_", "\\"],
  ["booking:"],
  ["booking/", "listing:"],
  ["booking:é", "booking:\0", "booking:A/"],
  ["a", "A", "0"],
  ["\u001b", "\0"],
];

export const excepting: Cases = {
  "`except` leaves out the records whose key begins with one of the texts, byte by byte": (bench) =>
    takesEach(
      bench,
      BEGINNINGS.map((except) => ({ except })),
    ),

  "an empty `except` leaves out no record": (bench) => takesEach(bench, [{ except: [] }, {}]),

  "`except` takes 1,000 texts": (bench) =>
    takesEach(bench, [{ except: [...many(996), "a1/", "a17/", "booking:", "booking:A"] }]),

  "the record behind those of `except` is claimed, even if `limit` is 1": async (bench) => {
    const { add, claim, claimOne, tick } = bench;
    for (let index = 0; index < 5; index++) await add(`a17/booking:${index}`);
    await tick();
    const last = await add("b2/booking:A");
    const options = { limit: 1, except: ["a17/"] };
    equal("id of the claimed event", (await claimOne(options)).eventId, last.eventId);
    equal("claim() with the same `except`", await claim(options), []);
    check(
      (await claim()).length === 5,
      "claim() without `except`: expected the 5 records that were left out",
    );
  },

  "the record that was left out keeps its place": async (bench) => {
    const { add, claimOne, tick } = bench;
    const first = await add("a17/booking:A");
    await tick();
    const options = { limit: 1, except: ["a17/"] };
    for (const name of ["A", "B"]) {
      const other = await add(`b2/booking:${name}`);
      equal("id of the claimed event", (await claimOne(options)).eventId, other.eventId);
      await tick();
    }
    await add("b2/booking:C");
    equal(
      "id of the event that claim() took without `except`",
      (await claimOne({ limit: 1 })).eventId,
      first.eventId,
    );
  },

  "`onNextDue` and `nextDue` leave out the records of `except`": async (bench) => {
    const { add, claim, store } = bench;
    await add("a17/booking:A");
    await add("a17/booking:B", {}, { dueIn: LONG });
    const except = ["a17/"];
    const tells = async (what: string, expected: (ms: number | undefined) => void) => {
      let told: { readonly ms: number | undefined } | undefined;
      equal(`claim() ${what}`, await claim({ except, onNextDue: (ms) => (told = { ms }) }), []);
      if (told !== undefined) expected(told.ms);
      expected(await store.nextDue({ except }));
    };
    await tells("without other records", (ms) => equal("the next due time", ms, undefined));
    await add("b2/booking:A", {}, { dueIn: 2 * LONG });
    await tells("with a timer", (ms) => between("the next due time", ms, LONG + 1, 2 * LONG));
    await add("b2/booking:B");
    await claim({ except, leaseDuration: LONG / 2 });
    await tells("with a lease", (ms) => between("the next due time", ms, 1, LONG / 2));
    equal("nextDue() without `except`", await store.nextDue(), 0);
  },

  "a claim by id takes no event of `except`": async ({ add, claim, claimOne }) => {
    const { eventId } = await add("a17/booking:A");
    equal("claim() by id with `except`", await claim({ eventId, except: ["b2/", "a17/booking:"] }), []);
    equal("claim() by id with another `only`", await claim({ eventId, only: ["b2/"] }), []);
    const options = { eventId, except: ["a1/"], only: ["b2/", "a17/"] };
    equal("id of the claimed event", (await claimOne(options)).eventId, eventId);
  },

  "an event whose lease has ended is left out, too": async ({ add, claim, claimOne, claimLater }) => {
    await add("a17/booking:A");
    const { eventId } = await claimOne({ leaseDuration: 1 });
    await claimLater(0, { only: ["a17/"], leaseDuration: 1 });
    for (let time = 0; time < 3; time++)
      equal("claim() with `except`", await claim({ except: ["a17/"] }), []);
    equal("id of the claimed event", (await claimLater(0)).eventId, eventId);
  },

  "an empty text is refused": async ({ add, claim, store }) => {
    await add("booking:A");
    for (const options of [{ except: [""] }, { only: ["booking:", ""] }]) {
      await rejects(`claim(${JSON.stringify(options)})`, () => claim(options));
      await rejects(`nextDue(${JSON.stringify(options)})`, () => store.nextDue(options));
    }
    equal("how many events a later claim took", (await claim()).length, 1);
  },
};

export const picking: Cases = {
  "`only` takes the records whose key begins with one of the texts, byte by byte": (bench) =>
    takesEach(
      bench,
      BEGINNINGS.map((only) => ({ only })),
    ),

  "an empty `only` takes no record": (bench) => takesEach(bench, [{ only: [] }]),

  "`only` takes 1,000 texts": (bench) =>
    takesEach(bench, [{ only: [...many(996), "a1/", "a17/", "booking:", "booking:A"] }]),

  "`only` and `except` combine": (bench) =>
    takesEach(bench, [
      { only: ["a17/"], except: ["a17/booking:AB"] },
      { only: ["a17/booking:", "booking:"], except: ["a17/"] },
      { only: ["a17/booking:A"], except: ["a17/"] },
    ]),

  "`onNextDue` tells of the records of `only` alone": async ({ add, claim, store }) => {
    await add("a17/booking:A", {}, { dueIn: 2 * LONG });
    await add("b2/booking:A", {}, { dueIn: LONG });
    await add("b2/booking:B");
    for (const [only, least] of [
      [["a17/"], LONG + 1],
      [["c3/"], undefined],
    ] as const) {
      const told: (number | undefined)[] = [];
      equal(
        "claim() of records that are not due",
        await claim({ only, onNextDue: (ms) => told.push(ms) }),
        [],
      );
      for (const ms of [...told, await store.nextDue({ only })])
        if (least === undefined) equal("the next due time without such records", ms, undefined);
        else between("the next due time", ms, least, 2 * LONG);
    }
  },

  "of the records of `only`, the one that is due longest is claimed first": async ({
    add,
    claimOne,
    tick,
  }) => {
    const events: { readonly eventId: string }[] = [];
    for (const ref of ["a17/booking:B", "b2/booking:A", "a17/listing:A", "a17/booking:A"]) {
      events.push(await add(ref));
      await tick();
    }
    const claimed = [];
    for (let index = 0; index < 3; index++)
      claimed.push((await claimOne({ limit: 1, only: ["a17/booking:", "a17/listing:"] })).eventId);
    equal(
      "ids of successive claims",
      claimed,
      [0, 2, 3].map((index) => events[index]!.eventId),
    );
  },
};

/** Returns beginnings of different lengths that no record has. */
function many(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `host-${index ** 2}/`);
}
