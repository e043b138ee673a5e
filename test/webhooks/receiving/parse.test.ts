import fc from "fast-check";
import { expect, test } from "vitest";
import { nearest } from "../../../src/option-names.ts";
import { parseBody } from "../../../src/webhooks/receiving/parse.ts";
import { sized } from "../../support/soak.ts";
import { bookingNotification, bytesOf } from "./receiver.ts";

// test/models/notification.test.ts has the forms of each field.
const eventId = fc.tuple(fc.uuid(), fc.boolean()).map(([id, upper]) => (upper ? id.toUpperCase() : id));
const timestamp = fc.constantFrom(
  { text: "2026-03-01T10:00:00Z", iso: "2026-03-01T10:00:00.000Z" },
  { text: "2026-03-01 12:00:00.5+0200", iso: "2026-03-01T10:00:00.500Z" },
);

const bookingCode = fc
  .string({ unit: "grapheme", minLength: 1, maxLength: 80 })
  .filter(
    (code) =>
      !["", ".", "..", "0"].includes(code.trim()) && !/[\p{Cc}\p{Cs}]/u.test(code) && [...code].length <= 256,
  );
const listingId = fc.oneof(fc.nat(), fc.maxSafeInteger());
const refOfBooking = (code: string): string => `booking:${code.trim()}`;
/** A reference in the notification, and its normalized form. */
const references = fc.oneof(
  bookingCode.map((code) => ({ fields: { bookingCode: code, listingId: null }, ref: refOfBooking(code) })),
  bookingCode.map((code) => ({ fields: { bookingCode: code, listingId: 0 }, ref: refOfBooking(code) })),
  bookingCode.map((code) => ({ fields: { bookingCode: code }, ref: refOfBooking(code) })),
  listingId.map((id) => ({ fields: { listingId: id, bookingCode: null }, ref: `listing:${id}` })),
  fc.nat().map((id) => ({ fields: { listingId: `00${id}` }, ref: `listing:${id}` })),
  fc.constant({ fields: {}, ref: null }),
  fc.constant({ fields: { bookingCode: null, listingId: null }, ref: null }),
);

const known = ["eventId", "timestamp", "bookingCode", "listingId"];
/** A key that looks like a misspelt one causes a doubt. test/models/notification.test.ts has those. */
const isFurther = (key: string) =>
  !known.includes(key) && nearest(key, ["bookingCode", "listingId"]) === undefined;
const further = fc
  .dictionary(fc.string({ unit: "binary" }), fc.jsonValue({ stringUnit: "binary", maxDepth: 5 }))
  .map((fields) => Object.fromEntries(Object.entries(fields).filter(([key]) => isFurther(key))));
const topic = fc.option(fc.constantFrom("bookings", "listings"), { nil: undefined });

/** Formats in which the same JSON may arrive. */
const spelling = fc.record({
  indent: fc.constantFrom(0, 2, "\t"),
  mark: fc.constantFrom("", "\uFEFF"),
  around: fc.constantFrom("", " \r\n"),
  asBytes: fc.boolean(),
});

test("a well-formed notification is never refused, and makes the same event in every notation", () => {
  const given = fc.tuple(eventId, timestamp, references, further, topic, spelling);
  fc.assert(
    fc.property(given, ([id, time, about, fields, from, how]) => {
      const value = { ...fields, eventId: id, timestamp: time.text, ...about.fields };
      const text = how.around + JSON.stringify(value, null, how.indent) + how.around;
      const content = how.asBytes ? bytesOf(how.mark + text) : how.mark + text;
      expect(parseBody(content, from)).toEqual({
        ok: true,
        event: {
          eventId: id.toLowerCase(),
          ref: about.ref,
          source: "webhook",
          topic: from ?? null,
          timestamp: time.iso,
          notification: text,
        },
        doubts: [],
      });
    }),
    { numRuns: sized(100, 500) },
  );
});

const parsedOf = (fields: object, topic?: string) => {
  const parsed = parseBody(JSON.stringify({ ...bookingNotification, ...fields }), topic);
  if (!parsed.ok) throw new Error("refused");
  return parsed;
};

test.each([
  ["bookings", "booking:HX-1", []],
  ["listings", "listing:7", []],
  ["reviews", "booking:HX-1", ["references"]],
  [undefined, "booking:HX-1", ["references"]],
])("with both references, a notification of the endpoint of %s refers to %s", (topic, ref, doubts) => {
  expect(parsedOf({ bookingCode: "HX-1", listingId: 7 }, topic)).toMatchObject({ event: { ref }, doubts });
});

test.each([
  [{ bookingCode: "HX-1" }, "message:HX-1"],
  [{ bookingCode: " hx-1 ", listingId: 7 }, "message:hx-1"],
  [{ bookingCode: 7, listingId: {} }, "message:7"],
  [{ bookingCode: null, listingId: 7 }, null],
  [{ bookingCode: "0" }, null],
  [{ bookingCode: ".." }, null],
  [{ bookingCode: {}, listingId: "x" }, null],
])(
  "a notification of the messages topic belongs to the booking of its code, if that is usable: %j",
  (references, ref) => {
    const event = { ref, topic: "messages" };
    expect(parsedOf(references, "messages")).toMatchObject({ event, doubts: [] });
  },
);

test.each([null, "yesterday", {}])(
  "a timestamp that cannot be read counts as the time of receipt: %j",
  (timestamp) => {
    const { event, doubts } = parsedOf({ timestamp });
    expect(Math.abs(Date.now() - Date.parse(event.timestamp))).toBeLessThan(5_000);
    expect(doubts).toEqual(["timestamp"]);
  },
);

test("a body that is not JSON is refused", () => {
  const text = JSON.stringify(bookingNotification);
  const cuts = Array.from(text, (_, length) => text.slice(0, length));
  for (const body of [...cuts, `${text},`, `[${text}]`])
    for (const content of [body, bytesOf(body)]) expect(parseBody(content, undefined).ok).toBe(false);
});

test("any body is parsed without throwing, and an accepted one makes a valid event", () => {
  const anything = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.uint8Array(),
    fc.json(),
    fc.record({ eventId: fc.jsonValue(), timestamp: fc.jsonValue() }).map((value) => JSON.stringify(value)),
  );
  fc.assert(
    fc.property(anything, (content) => {
      const parsed = parseBody(content, undefined);
      if (parsed.ok) expect(parsed.event.eventId).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
      else expect(parsed.issues.length).toBeGreaterThan(0);
    }),
    { numRuns: sized(200, 1000) },
  );
});
