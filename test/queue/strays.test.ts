import { expect, test } from "vitest";
import { Strays } from "../../src/queue/strays.ts";
import type { ClaimedEvent } from "../../src/stores/stored-event.ts";
import { beginningOf, laneOf } from "../../src/webhooks/refs.ts";

const all = ["booking:", "listing:"];

test.each([
  { what: "a booking of an account", eventId: "a/1", ref: "a/booking:X", isStray: false, left: all },
  { what: "a message of an account", eventId: "a/1", ref: null, isStray: false, left: all },
  { what: "a booking without account", eventId: "1", ref: "booking:X", isStray: true, left: all },
  { what: "a listing without account", eventId: "1", ref: "listing:7", isStray: true, left: all },
  { what: "a message without account", eventId: "1", ref: null, isStray: true, left: [...all, "1"] },
])("with accounts, $what is a stray: $isStray", ({ eventId, ref, isStray, left }) => {
  const strays = new Strays({ hasAccounts: true, laneOf, beginningOf });
  expect(strays.beginnings).toEqual(all);
  expect(strays.note({ eventId, ref } as ClaimedEvent)).toBe(isStray);
  expect(strays.beginnings).toEqual(left);
});

test("without accounts, nothing is a stray", () => {
  const strays = new Strays({ hasAccounts: false, laneOf, beginningOf });
  expect(strays.note({ eventId: "1", ref: null } as ClaimedEvent)).toBe(false);
  expect(strays.beginnings).toEqual([]);
});

test("10,000 messages without account are remembered, and each other one is still a stray", () => {
  const strays = new Strays({ hasAccounts: true, laneOf, beginningOf });
  const notes = Array.from({ length: 10_001 }, (_, n) =>
    strays.note({ eventId: `${n}`, ref: null } as ClaimedEvent),
  );
  expect(notes.every((isStray) => isStray)).toBe(true);
  expect(strays.beginnings).toHaveLength(2 + 10_000);
});
