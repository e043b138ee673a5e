// Rows of moves, with the calls that each makes. A rule of things that is broken fails at least one row.
import { hold, once } from "stayhook/stays";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { houseOf, setTime, type usual } from "./house.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => void vi.useRealTimers());

/**
 * A time in May, a move, and the calls that it makes: `book <house> <first day> <last day>`, `cancel`, `tell` (a notification
 * without a change), `go on`, `change` (nothing is handled yet, with the words of `book`), `away <calls>` (these calls fail),
 * `back`, or `discard <type>`.
 */
type Step = readonly [time: string, move: string, ...calls: string[]];

interface Row {
  readonly want?: typeof usual;
  readonly options?: Parameters<typeof houseOf>[0];
  readonly steps: readonly Step[];
  /** Whether the ledger is empty then. */
  readonly isForgotten?: boolean;
}

const nights: typeof usual = () => [hold("nights")];
const door: typeof usual = ({ checkIn, checkOut }, { at }) => [
  hold("door", { from: at(checkIn, "15:00"), until: at(checkOut, "11:00") }),
];
const cleaning: typeof usual = ({ checkIn, checkOut }, { at }) => [
  once("cleaning", { at: at(checkOut, "11:00"), owedFrom: at(checkIn, "15:00") }),
];
const mail: typeof usual = ({ checkIn }, { at }) => [
  once("directions", { at: at(checkIn, "09:00", { days: -2 }) }),
];

const HOUR = 3_600_000;
const BOOKED: Step = ["01 12:00", "book 1 10 13"];

const groups: Readonly<Record<string, Readonly<Record<string, Row>>>> = {
  "a once": {
    "booked after its time does not run without an `until`": {
      want: mail,
      steps: [["09 12:00", "book 1 10 13"]],
      isForgotten: true,
    },
    "that waited runs at once if its time moves into the past": {
      want: mail,
      steps: [BOOKED, ["07 12:00", "book 1 08 11", "directions 1 08-11"]],
    },
    "runs again for another house, and for other days with another time": {
      want: mail,
      steps: [
        BOOKED,
        ["08 09:00", "go on", "directions 1 10-13"],
        ["08 10:00", "book 2 20 23"],
        ["18 09:00", "go on", "directions 2 20-23"],
        ["18 10:00", "book 2 21 23"],
        ["19 09:00", "go on", "directions 2 21-23"],
      ],
    },
    "does not run again for other days with the same time": {
      want: mail,
      steps: [
        BOOKED,
        ["08 09:00", "go on", "directions 1 10-13"],
        ["08 10:00", "book 1 10 14"],
        ["08 11:00", "go on"],
      ],
    },
    "with an `until` does not run again for other days with the same time": {
      want: ({ checkIn, checkOut }, { at }) => [
        once("directions", { at: at(checkIn, "09:00", { days: -2 }), until: at(checkOut, "11:00") }),
      ],
      steps: [
        BOOKED,
        ["08 09:00", "go on", "directions 1 10-13"],
        ["08 10:00", "book 1 10 14"],
        ["08 11:00", "go on"],
      ],
    },
    "without `owedFrom` is dropped with its stay": {
      want: ({ checkOut }, { at }) => [once("cleaning", { at: at(checkOut, "11:00") })],
      steps: [BOOKED, ["12 12:00", "cancel"], ["13 11:00", "go on"]],
      isForgotten: true,
    },
    "never runs after `until`, also if it is owed": {
      want: ({ checkIn }, { at }) => [
        once("cleaning", {
          at: at(checkIn, "16:00"),
          until: at(checkIn, "18:00"),
          owedFrom: at(checkIn, "15:00"),
        }),
      ],
      steps: [BOOKED, ["10 19:00", "cancel"]],
      isForgotten: true,
    },
    "that is owed and fails does not run after `until`": {
      want: ({ checkIn }, { at }) => [
        once("cleaning", {
          at: at(checkIn, "16:00"),
          until: at(checkIn, "18:00"),
          owedFrom: at(checkIn, "15:00"),
        }),
      ],
      options: { backoff: () => 3 * HOUR },
      steps: [
        BOOKED,
        ["10 15:30", "away cleaning"],
        ["10 15:30", "cancel", "cleaning 1 10-13 early"],
        ["10 15:30", "back"],
        ["10 19:00", "go on"],
      ],
      isForgotten: true,
    },
  },
  "a cleaning that is owed": {
    "is dropped before `owedFrom`": {
      want: cleaning,
      steps: [BOOKED, ["10 14:59", "cancel"], ["13 11:00", "go on"]],
      isForgotten: true,
    },
    "runs early if the days no longer include now": {
      want: cleaning,
      steps: [
        BOOKED,
        ["11 12:00", "book 1 12 15", "cleaning 1 10-13 early"],
        ["15 11:00", "go on", "cleaning 1 12-15"],
      ],
    },
    "does not run early if the stay is extended while the guest is there": {
      want: cleaning,
      steps: [
        BOOKED,
        ["11 12:00", "book 1 10 15"],
        ["13 11:00", "go on"],
        ["15 11:00", "go on", "cleaning 1 10-15"],
      ],
    },
    "runs early for days to come that need none": {
      want: (stay, context) => (stay.nights > 1 ? cleaning(stay, context) : []),
      steps: [BOOKED, ["11 12:00", "book 1 20 21", "cleaning 1 10-13 early"]],
      isForgotten: true,
    },
    "is dropped if `want` no longer names it, and the guest is still there": {
      want: (stay, context) => (stay.nights > 1 ? cleaning(stay, context) : []),
      steps: [BOOKED, ["10 16:00", "book 1 10 11"], ["11 11:00", "go on"]],
      isForgotten: true,
    },
    "is dropped so on the day of departure, too": {
      want: (stay, context) => (stay.nights > 1 ? cleaning(stay, context) : []),
      steps: [BOOKED, ["13 10:00", "book 1 12 13"], ["13 11:00", "go on"]],
      isForgotten: true,
    },
    "waits for a crew that fails, and runs again at the end if the guest is back": {
      want: cleaning,
      options: { backoff: () => HOUR },
      steps: [
        BOOKED,
        ["12 12:00", "away cleaning"],
        ["12 12:00", "cancel", "cleaning 1 10-13 early"],
        ["12 12:30", "book 1 10 13"],
        ["12 12:30", "back"],
        ["12 13:30", "go on", "cleaning 1 10-13 early"],
        ["13 11:00", "go on", "cleaning 1 10-13"],
      ],
    },
    "and whose time passed while no process ran runs for both houses": {
      want: cleaning,
      steps: [
        BOOKED,
        ["13 12:00", "change 2 10 13"],
        ["13 12:00", "go on", "cleaning 1 10-13", "cleaning 2 10-13"],
      ],
    },
    "and whose time passed while no process ran runs once for one house": {
      want: cleaning,
      steps: [BOOKED, ["13 12:00", "change 1 10 12"], ["13 12:00", "go on", "cleaning 1 10-13"]],
    },
    "does not run if its event was discarded": {
      want: cleaning,
      steps: [BOOKED, ["10 16:00", "discard"], ["12 12:00", "cancel"], ["13 11:00", "go on"]],
      isForgotten: true,
    },
  },
  "ends come before begins, and begins before onces": {
    "of what is due at once": {
      want: ({ checkIn, checkOut }, { at }) => [
        once("directions", { at: at(checkIn, "09:00", { days: -2 }), until: at(checkOut, "11:00") }),
        hold("nights"),
        hold("door"),
      ],
      steps: [
        ["09 12:00", "book 1 10 13", "nights begin 1 10-13", "door begin 1 10-13", "directions 1 10-13"],
        [
          ...(["09 13:00", "book 2 10 13", "nights end 1 10-13", "door end 1 10-13"] as const),
          ...["nights begin 2 10-13", "door begin 2 10-13", "directions 2 10-13"],
        ],
      ],
    },
    "of what is due at one time": {
      want: ({ checkIn }, { at }) => [
        once("directions", { at: at(checkIn, "15:00") }),
        hold("door", { from: at(checkIn, "15:00") }),
        hold("nights", { until: at(checkIn, "15:00") }),
      ],
      steps: [
        ["09 12:00", "book 1 10 13", "nights begin 1 10-13"],
        ["10 15:00", "go on", "nights end 1 10-13", "door begin 1 10-13", "directions 1 10-13"],
      ],
    },
    "also before a once that was due for longer": {
      want: (stay, context) => [...cleaning(stay, context), hold("nights")],
      steps: [
        ["01 12:00", "book 1 10 13", "nights begin 1 10-13"],
        ["14 12:00", "change 2 10 13"],
        [
          ...(["14 12:00", "go on", "nights end 1 10-13", "nights begin 2 10-13"] as const),
          ...["cleaning 1 10-13", "cleaning 2 10-13"],
        ],
      ],
    },
  },
  "a hold": {
    "whose `end` failed ends before it begins anew, with another id": {
      want: nights,
      options: { backoff: () => HOUR },
      steps: [
        ["01 12:00", "book 1 10 13", "nights begin 1 10-13"],
        ["01 13:00", "away nights end"],
        ["01 13:00", "cancel", "nights end 1 10-13"],
        ["01 13:30", "book 1 10 13"],
        ["01 13:30", "back"],
        ["01 14:30", "go on", "nights end 1 10-13", "nights begin 1 10-13"],
      ],
    },
    "whose `begin` waits for its next try begins at once for other days, and for other days only": {
      want: nights,
      options: { backoff: () => HOUR },
      steps: [
        ["01 12:00", "away nights begin"],
        ["01 12:00", "book 1 10 13", "nights begin 1 10-13"],
        ["01 12:00", "back"],
        ["01 12:10", "tell"],
        ["01 12:20", "book 1 10 14", "nights begin 1 10-14"],
        ["01 13:30", "go on"],
      ],
    },
    "whose `begin` waits for its next try ends at once if it is cancelled": {
      want: nights,
      options: { backoff: () => HOUR },
      steps: [
        ["01 12:00", "away nights begin"],
        ["01 12:00", "book 1 10 13", "nights begin 1 10-13"],
        ["01 12:10", "cancel", "nights end 1 10-13"],
        ["01 13:30", "go on"],
      ],
      isForgotten: true,
    },
    "begins at the new house, although its `end` fails at the old one": {
      want: nights,
      options: { backoff: () => HOUR },
      steps: [
        ["01 12:00", "book 1 10 13", "nights begin 1 10-13"],
        ["01 13:00", "away nights end"],
        ["01 13:00", "book 2 10 13", "nights end 1 10-13", "nights begin 2 10-13"],
      ],
    },
    "without an `until` is forgotten 30 days after its check-out, and nothing is called": {
      want: (stay, context) => [...nights(stay, context), ...mail(stay, context)],
      steps: [
        ["01 12:00", "book 1 10 20", "nights begin 1 10-20"],
        ["08 09:00", "go on", "directions 1 10-20"],
        ["08 12:00", "book 1 10 11", "nights begin 1 10-11"],
        ["06-11 12:00", "tell"],
        ["06-12 12:00", "cancel"],
      ],
    },
    "without an `until` whose `begin` was parked is forgotten then, too": {
      want: (stay, context) => [...nights(stay, context), ...mail(stay, context)],
      options: { maxAttempts: 1 },
      steps: [
        ["01 12:00", "away nights"],
        ["01 12:00", "book 1 10 20", "nights begin 1 10-20"],
        ["08 09:00", "go on", "directions 1 10-20"],
        ["08 12:00", "book 1 10 11", "nights begin 1 10-11"],
        ["06-11 12:00", "go on"],
        ["06-12 12:00", "cancel"],
      ],
    },
    "whose `begin` for other days failed begins again": {
      want: nights,
      options: { backoff: () => HOUR },
      steps: [
        ["01 12:00", "book 1 10 13", "nights begin 1 10-13"],
        ["01 12:10", "away nights"],
        ["01 12:10", "book 1 10 14", "nights begin 1 10-14"],
        ["01 12:20", "back"],
        ["01 13:30", "go on", "nights begin 1 10-14"],
      ],
    },
    "that was parked is tried again at the next plan, and not again once it is on": {
      want: nights,
      options: { maxAttempts: 1 },
      steps: [
        ["01 12:00", "away nights"],
        ["01 12:00", "book 1 10 13", "nights begin 1 10-13"],
        ["01 13:00", "go on"],
        ["01 13:00", "back"],
        ["01 13:00", "tell", "nights begin 1 10-13"],
        ["01 14:00", "tell"],
      ],
    },
    "that was discarded before its time begins for other days": {
      want: door,
      steps: [
        BOOKED,
        ["02 12:00", "discard"],
        ["02 12:00", "book 1 10 14"],
        ["10 15:00", "go on", "door begin 1 10-14"],
      ],
    },
    "whose time moves into the future ends, and begins then": {
      want: door,
      steps: [
        BOOKED,
        ["10 15:00", "go on", "door begin 1 10-13"],
        ["10 16:00", "book 1 12 14", "door end 1 10-13"],
        ["12 15:00", "go on", "door begin 1 12-14"],
        ["14 11:00", "go on", "door end 1 12-14"],
      ],
      isForgotten: true,
    },
  },
};

describe.each(Object.entries(groups))("%s", (_, rows) => {
  test.each(Object.entries(rows))("%s", async (_, { want, options, steps, isForgotten = false }) => {
    let away: string | undefined;
    const act = ({ text }: { readonly text: string }) => {
      if (away !== undefined && text.startsWith(away)) throw new Error("away");
    };
    const house = houseOf({ ...options, ...(want && { want }), act });
    let last: readonly [number, string, string] = [1, "", ""];
    for (const [time, move, ...calls] of steps) {
      const [word, ...words] = move.split(" ");
      setTime(time);
      if (word === "book" || word === "change")
        last = [Number(words[0]), `2026-05-${words[1]}`, `2026-05-${words[2]}`];
      const [listingId, checkIn, checkOut] = last;
      if (word === "book") await house.book(...last);
      if (word === "change") house.platform.booking("HX3K9", "Confirmed", { listingId, checkIn, checkOut });
      if (word === "cancel") await house.book(...last, "Cancelled");
      if (word === "tell") await house.notify();
      if (word === "tell" || word === "go") await house.handle();
      if (word === "away") away = words.join(" ");
      if (word === "back") away = undefined;
      if (word === "discard") {
        const waiting = await house.store.list({ source: "thing", state: "scheduled" });
        for (const { eventId, notification } of waiting)
          if (JSON.parse(notification ?? "").name) await house.store.discard({ eventId });
      }
      expect([time, move, ...house.took()]).toEqual([time, move, ...calls]);
    }
    seeIds(house.calls);
    expect((await house.store.ledgerOf("booking:HX3K9")) === undefined).toBe(isForgotten);
    if (isForgotten) expect(await house.store.list({ source: "thing", state: "scheduled" })).toEqual([]);
  });
});

/** A call that is repeated, and the `end` of a hold, have the id of the call before. All others have one that never was. */
function seeIds(calls: ReturnType<typeof houseOf>["calls"]): void {
  const known = new Set<string>();
  const last = new Map<string, { readonly text: string; readonly id: string }>();
  for (const { text, id } of calls) {
    const [name, act, house] = text.split(" ") as [string, string, string];
    const thing = act === "begin" || act === "end" ? `${name} ${house}` : text;
    const before = last.get(thing);
    const isNew = act === "begin" ? !before || before.text.includes("end") : !before;
    expect([text, isNew ? known.has(id) : id]).toEqual([text, isNew ? false : before?.id]);
    known.add(id);
    last.set(thing, { text, id });
  }
}
