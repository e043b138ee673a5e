import { expect, it } from "vitest";
import { sumUp, type Totals } from "../../examples/day/totals.ts";

const stays = ["A", "B"].map((bookingCode) => ({
  bookingCode,
  checkIn: "2027-03-01",
  checkOut: "2027-03-04",
  nights: 3,
}));

const good: Totals = {
  moves: 3,
  deliveries: { sent: 8, answered200: 6, unanswered: 2 },
  received: 3,
  duplicates: 3,
  callbacks: { begun: 6, failed: 1, cut: 2 },
  recorded: 3,
  done: 3,
  journal: ["1", "2", "3"],
  kill: { answered: 3, done: 0, begun: 2, waiting: 1 },
  nightsBlocked: 9,
  nightsReleased: 3,
  calendar: stays,
  confirmed: [...stays].reverse(),
};

const broken = (totals: Totals) => sumUp(totals).filter(({ holds }) => !holds);

it("finds that the totals of a good day add up", () => {
  expect(broken(good)).toEqual([]);
});

it.each<[string, Partial<Totals>, ...string[]]>([
  [
    "a delivery was answered something else",
    { deliveries: { ...good.deliveries, sent: 9 } },
    "nobody answered",
  ],
  [
    "no delivery met a dead subscriber",
    { deliveries: { sent: 6, answered200: 6, unanswered: 0 } },
    "nobody answered",
  ],
  [
    "a delivery was given up",
    { deliveries: { sent: 8, answered200: 5, unanswered: 3 }, duplicates: 2 },
    "2 × 3 moves",
  ],
  ["a duplicate was not counted", { duplicates: 2 }, "duplicates"],
  ["an event was lost", { recorded: 2, done: 2, journal: ["1", "2"] }, "2 events recorded", "6 callbacks"],
  ["an event did not end", { done: 2, journal: ["1", "2"] }, "2 events done", "6 callbacks"],
  ["an event is done and did not count", { journal: ["1", "2"] }, "3 events done", "6 callbacks"],
  ["an event counted twice", { journal: ["1", "2", "3", "3"] }, "3 events done", "6 callbacks"],
  ["an event counted for another", { journal: ["1", "2", "2"] }, "3 events done"],
  ["a callback ran twice for nothing", { callbacks: { ...good.callbacks, begun: 7 } }, "7 callbacks"],
  ["a failed callback did not run again", { callbacks: { ...good.callbacks, failed: 2 } }, "6 callbacks"],
  ["the kill lost an event", { kill: { ...good.kill, answered: 4 } }, "4 events answered"],
  [
    "a callback was cut, and its event was not begun",
    { callbacks: { begun: 7, failed: 1, cut: 3 } },
    "3 callbacks cut",
  ],
  [
    "the kill cut nothing",
    { callbacks: { begun: 4, failed: 1, cut: 0 }, kill: { answered: 3, done: 2, begun: 0, waiting: 1 } },
    "0 callbacks cut",
  ],
  ["the kill left nothing waiting", { kill: { answered: 3, done: 1, begun: 2, waiting: 0 } }, "cut"],
  ["a night was blocked twice", { nightsBlocked: 12 }, "nights blocked"],
  ["a night was not released", { nightsReleased: 0 }, "nights blocked"],
  ["a stay is missing", { calendar: stays.slice(1) }, "stays in the calendar"],
  [
    "a stay has other dates",
    { calendar: stays.map((stay) => ({ ...stay, checkIn: "2027-02-28" })) },
    "stays in the calendar",
  ],
])("finds that %s", (_, wrong, ...texts) => {
  const sums = broken({ ...good, ...wrong });
  expect(sums.map(({ text }) => text)).toEqual(texts.map((text) => expect.stringContaining(text)));
});

it("finds that nothing happened", () => {
  const nothing = { moves: 0, received: 0, duplicates: 0, recorded: 0, done: 0, journal: [] };
  const deliveries = { sent: 0, answered200: 0, unanswered: 0 };
  expect(broken({ ...good, ...nothing, deliveries })).not.toEqual([]);
});
