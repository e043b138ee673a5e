import { expect, it } from "vitest";
import { sumUp } from "../../examples/day/totals.ts";

const good = {
  moves: 12,
  deliveries: 24,
  answered200: 24,
  events: 12,
  duplicates: 12,
  callbacks: 13,
  retries: 1,
  nightsBlocked: 9,
  nightsReleased: 4,
  nightsConfirmed: 5,
  blockedCodes: ["B", "A"],
  confirmedCodes: ["A", "B"],
};

const broken = (totals: typeof good) => sumUp(totals).filter(({ holds }) => !holds);

it("finds that the totals of a good day add up", () => {
  expect(broken(good)).toEqual([]);
});

it.each([
  ["an event was lost", { events: 11, duplicates: 13, callbacks: 12 }, "12 moves"],
  [
    "nothing happened",
    { moves: 0, deliveries: 0, answered200: 0, events: 0, duplicates: 0, callbacks: 1 },
    "0 moves",
  ],
  ["not everything was delivered twice", { deliveries: 23, answered200: 23, duplicates: 11 }, "2 × 12"],
  ["a delivery was not answered 200", { answered200: 23 }, "answered 200"],
  ["a duplicate was not counted", { duplicates: 11 }, "duplicates"],
  ["a callback ran twice for nothing", { callbacks: 14 }, "callbacks"],
  ["a retry did not run", { retries: 2 }, "callbacks"],
  ["a night was not released", { nightsReleased: 3 }, "nights"],
  ["a night too many is confirmed", { nightsConfirmed: 6 }, "nights"],
  ["another booking is in the calendar", { blockedCodes: ["A", "C"] }, "calendar"],
  ["a booking is missing in the calendar", { blockedCodes: ["A"] }, "calendar"],
])("finds that %s", (_, wrong, text) => {
  const sums = broken({ ...good, ...wrong });
  expect(sums).toHaveLength(1);
  expect(sums[0]?.text).toContain(text);
});
