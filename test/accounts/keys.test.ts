import { describe, expect, test } from "vitest";
import { accountOf, isAccount, splitKey } from "../../src/account.ts";
import { firingId, rowIdOf } from "../../src/stores/firing-id.ts";
import { isOwnId, ownId, storedId } from "../../src/webhooks/own-ids.ts";
import { bookingRef, laneOf, listingRef, parseRef } from "../../src/webhooks/refs.ts";

const UUID = "3f0e1d9a-58b4-4c4f-9a6e-6f3f1c2a7b10";
const LONGEST = "A".repeat(64);

test.each(["a", "a17", "A.b_c-9", ".", LONGEST])("%s is an account", (account) => {
  expect(isAccount(account)).toBe(true);
  expect(splitKey(`${account}/booking:HX3K9`)).toEqual({ account, rest: "booking:HX3K9" });
});

test.each(["", "a b", "a/b", "ä", "a:b", "a\n", `${LONGEST}A`, undefined, 7])(
  "%j is no account",
  (account) => {
    expect(isAccount(account)).toBe(false);
  },
);

test.each([
  "booking:a/b",
  "listing:7",
  UUID,
  "stayhook:recheck:booking:a/b",
  "stayhook:timer:booking:a/b:x",
  "",
])("%s has no account", (key) => expect(splitKey(key)).toEqual({ account: undefined, rest: key }));

describe("a ref", () => {
  test.each([
    ["booking:HX3K9", { account: undefined, kind: "booking", bookingCode: "HX3K9" }],
    ["a17/booking:HX3K9", { account: "a17", kind: "booking", bookingCode: "HX3K9" }],
    ["a17/booking:x/y", { account: "a17", kind: "booking", bookingCode: "x/y" }],
    ["A17/listing:7", { account: "A17", kind: "listing", listingId: 7 }],
    ["a17/other:7", undefined],
    [null, undefined],
  ])("%s", (ref, subject) => expect(parseRef(ref)).toEqual(subject));

  test("is made with its account", () => {
    expect([bookingRef(" HX ", "a17"), listingRef(7, "a17")]).toEqual(["a17/booking:HX", "a17/listing:7"]);
    expect([bookingRef("HX"), listingRef(7)]).toEqual(["booking:HX", "listing:7"]);
  });

  test("decides the lane, and without a ref, the event's id", () => {
    const lane = (ref: string | null, eventId = UUID) => laneOf({ ref, eventId });
    expect(lane("a17/booking:X")).toEqual({ account: "a17", kind: "bookings" });
    expect(lane("b2/listing:7")).toEqual({ account: "b2", kind: "listings" });
    expect(lane("booking:X")).toEqual({ account: undefined, kind: "bookings" });
    expect(lane(null, `a17/${UUID}`)).toEqual({ account: "a17", kind: undefined });
    expect(accountOf({ ref: null, eventId: `a17/${UUID}` })).toBe("a17");
    expect(accountOf({ ref: null, eventId: UUID })).toBeUndefined();
  });
});

describe("an event id", () => {
  test("keeps the case of its account, and of the package's own names", () => {
    expect(storedId(UUID.toUpperCase())).toBe(UUID);
    expect(storedId(`A17/${UUID.toUpperCase()}`)).toBe(`A17/${UUID}`);
    expect(storedId("A17/stayhook:recheck:booking:HX3K9")).toBe("A17/stayhook:recheck:booking:HX3K9");
    expect(storedId("stayhook:recheck:booking:HX3K9")).toBe("stayhook:recheck:booking:HX3K9");
  });

  test("of the package's own events begins with the account", () => {
    expect(ownId("recheck", "a17/booking:HX3K9")).toBe("a17/stayhook:recheck:booking:HX3K9");
    expect(ownId("follow-up", `a17/${UUID}`)).toBe(`a17/stayhook:follow-up:${UUID}`);
    expect(ownId("timer", "booking:a/b:x")).toBe("stayhook:timer:booking:a/b:x");
    expect(isOwnId("follow-up", `a17/stayhook:follow-up:${UUID}`)).toBe(true);
    expect(isOwnId("follow-up", `a17/${UUID}`)).toBe(false);
  });

  test("has 255 bytes at most, with the longest account, code, timer's name and time", () => {
    const id = ownId("timer", `${LONGEST}/booking:${"é".repeat(256)}:${"x".repeat(64)}`);
    const firing = firingId({ eventId: id, timestamp: "+275760-09-13T00:00:00.000Z" });
    expect(firing.startsWith(`${LONGEST}/stayhook:timer:`)).toBe(true);
    expect(new TextEncoder().encode(firing).length).toBeLessThanOrEqual(255);
    const short = ownId("timer", `a17/booking:${"A".repeat(150)}:${"x".repeat(10)}`);
    expect(firingId({ eventId: short, timestamp: "+275760-09-13T00:00:00.000Z" }).length).toBeLessThanOrEqual(
      255,
    );
  });

  test("of a firing has the time that was set, and its row has not", () => {
    const row = ownId("timer", "a17/booking:HX3K9:door");
    const timestamp = "2026-12-01T15:00:00.000Z";
    const firing = firingId({ eventId: row, timestamp });
    expect(firing).toBe(`a17/stayhook:timer:booking:HX3K9:door:${timestamp}`);
    expect(rowIdOf(firing)).toEqual({ eventId: row, timestamp });
  });
});
