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

it("the totals of a good day add up", () => {
  expect(broken(good)).toEqual([]);
});

it.each<[string, Partial<Totals>]>([
  ["nobody answered", { deliveries: { ...good.deliveries, sent: 9 } }],
  ["nobody answered", { deliveries: { sent: 6, answered200: 6, unanswered: 0 } }],
  ["2 × 3 moves", { deliveries: { sent: 8, answered200: 5, unanswered: 3 }, duplicates: 2 }],
  ["duplicates", { duplicates: 2 }],
  ["2 events recorded", { recorded: 2, done: 2, journal: ["1", "2"] }],
  ["2 events done", { done: 2, journal: ["1", "2"] }],
  ["3 events done", { journal: ["1", "2", "3", "3"] }],
  ["3 events done", { journal: ["1", "2", "2"] }],
  ["7 callbacks", { callbacks: { ...good.callbacks, begun: 7 } }],
  ["6 callbacks", { callbacks: { ...good.callbacks, failed: 2 } }],
  ["4 events answered", { kill: { ...good.kill, answered: 4 } }],
  ["3 callbacks cut", { callbacks: { begun: 7, failed: 1, cut: 3 } }],
  ["cut", { kill: { answered: 3, done: 1, begun: 2, waiting: 0 } }],
  ["nights blocked", { nightsBlocked: 12 }],
  ["stays in the calendar", { calendar: stays.slice(1) }],
  ["stays in the calendar", { calendar: stays.map((stay) => ({ ...stay, checkIn: "2027-02-28" })) }],
])("a day whose %s do not add up is found: %j", (text, wrong) => {
  expect(broken({ ...good, ...wrong })[0]?.text).toContain(text);
});
