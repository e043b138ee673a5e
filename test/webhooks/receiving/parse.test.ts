import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseBody } from "../../../src/webhooks/receiving/parse.ts";
import { bookingNotification, bytesOf } from "./receiver.ts";

const hex = (length: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(..."0123456789abcdefABCDEF"), minLength: length, maxLength: length });
const eventId = fc.tuple(hex(8), hex(4), hex(4), hex(4), hex(12)).map((parts) => parts.join("-"));

/** A time with ms precision, and a format for it. */
const timestamp = fc
  .record({
    moment: fc.date({
      min: new Date("0001-01-02T00:00:00Z"),
      max: new Date("9998-12-30T00:00:00Z"),
      noInvalidDate: true,
    }),
    separator: fc.constantFrom("T", "t", " "),
    precision: fc.constantFrom("minutes", "seconds", "fraction"),
    digits: fc.string({ unit: fc.constantFrom(..."0123456789"), maxLength: 6 }),
    offset: fc.oneof(
      fc.constantFrom("", "Z", "z"),
      fc.record({
        minutes: fc.integer({ min: -23 * 60, max: 23 * 60 }),
        style: fc.constantFrom(":", "", "hours"),
      }),
    ),
  })
  .map(({ moment, separator, precision, digits, offset }) => {
    const unit = precision === "minutes" ? 60_000 : precision === "seconds" ? 1_000 : 1;
    const at = Math.floor(moment.getTime() / unit) * unit;
    const minutes =
      typeof offset === "string"
        ? 0
        : offset.style === "hours"
          ? Math.trunc(offset.minutes / 60) * 60
          : offset.minutes;
    const local = new Date(at + minutes * 60_000).toISOString();
    const time =
      precision === "minutes"
        ? local.slice(11, 16)
        : precision === "seconds"
          ? local.slice(11, 19)
          : local.slice(11, 23) + digits;
    const two = (value: number): string => String(Math.floor(Math.abs(value))).padStart(2, "0");
    const suffix =
      typeof offset === "string"
        ? offset
        : `${minutes < 0 ? "-" : "+"}${two(Math.abs(minutes) / 60)}${offset.style === "hours" ? "" : offset.style + two(minutes % 60)}`;
    return { text: `${local.slice(0, 10)}${separator}${time}${suffix}`, iso: new Date(at).toISOString() };
  });

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
const further = fc
  .dictionary(fc.string({ unit: "binary" }), fc.jsonValue({ stringUnit: "binary", maxDepth: 5 }))
  .map((fields) => Object.fromEntries(Object.entries(fields).filter(([key]) => !known.includes(key))));
const topic = fc.option(fc.constantFrom("bookings", "listings"), { nil: undefined });

/** Formats in which the same JSON may arrive. */
const spelling = fc.record({
  indent: fc.constantFrom(0, 2, "\t"),
  mark: fc.constantFrom("", "\uFEFF"),
  around: fc.constantFrom("", " \r\n"),
  asBytes: fc.boolean(),
});

describe("a notification that is well-formed", () => {
  it("is never refused, and makes the same event in every notation", () => {
    fc.assert(
      fc.property(
        eventId,
        timestamp,
        references,
        further,
        topic,
        spelling,
        (id, time, about, fields, from, how) => {
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
        },
      ),
      { numRuns: 500 },
    );
  });
});

const parsedOf = (fields: object, topic?: string) => {
  const parsed = parseBody(JSON.stringify({ ...bookingNotification, ...fields }), topic);
  if (!parsed.ok) throw new Error("refused");
  return parsed;
};

describe("a notification with both references", () => {
  const both = { bookingCode: "HX-1", listingId: 7 };

  it.each([
    ["bookings", "booking:HX-1", []],
    ["listings", "listing:7", []],
    ["reviews", "booking:HX-1", ["references"]],
    [undefined, "booking:HX-1", ["references"]],
  ])("received by the endpoint of %s refers to %s", (topic, ref, doubts) => {
    expect(parsedOf(both, topic)).toMatchObject({ event: { ref }, doubts });
  });
});

describe("a notification of the messages topic", () => {
  it.each([
    { bookingCode: "HX-1" },
    { bookingCode: "HX-1", listingId: 7 },
    { bookingCode: {}, listingId: "x" },
  ])("refers to no record: %j", (references) => {
    expect(parsedOf(references, "messages")).toMatchObject({
      event: { ref: null, topic: "messages" },
      doubts: [],
    });
  });
});

describe("a timestamp that cannot be read", () => {
  it.each([null, "yesterday", "2026-02-30T10:00:00Z", {}, 7])(
    "counts as the time of receipt: %j",
    (timestamp) => {
      const { event, doubts } = parsedOf({ timestamp });
      expect(Math.abs(Date.now() - Date.parse(event.timestamp))).toBeLessThan(5_000);
      expect(doubts).toEqual(["timestamp"]);
    },
  );
});

describe("a malformed body", () => {
  const valid = fc.tuple(eventId, timestamp, references, further).map(
    ([id, time, about, fields]): Record<string, unknown> => ({
      ...fields,
      eventId: id,
      timestamp: time.text,
      ...about.fields,
    }),
  );
  const notText = fc.oneof(
    fc.constantFrom(undefined, null, true, false, "", " "),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.array(fc.string()),
    fc.dictionary(fc.string(), fc.string()),
  );
  const wrongFields = {
    eventId: fc.oneof(
      notText,
      eventId.map((id) => id.slice(1)),
      eventId.map((id) => `${id}0`),
      eventId.map((id) => `{${id}}`),
      eventId.map((id) => `${id}\n`),
      eventId.map((id) => id.replaceAll("-", "")),
      eventId.map((id) => `g${id.slice(1)}`),
    ),
    bookingCode: fc.constantFrom(
      ...[
        "",
        ".",
        "..",
        0.5,
        true,
        [],
        {},
        ["HX-1"],
        "x".repeat(257),
        "HX\ud800",
        "HX\u0000",
        "HX\n1",
        "HX\u007f",
      ],
    ),
    listingId: fc.constantFrom(
      ...["", "x", "1.5", "-", true, [], {}, [1], 1.5, 2 ** 53, "9007199254740992", "1e3", "0x10", " 7"],
    ),
  };
  const fields = Object.entries(wrongFields) as [string, fc.Arbitrary<unknown>][];

  it.each(fields)("a body with an invalid %s is refused, and the field is named", (field, wrong) => {
    fc.assert(
      fc.property(valid, wrong, (value, bad) => {
        const references = field === "eventId" ? {} : { bookingCode: null, listingId: null };
        const parsed = parseBody(JSON.stringify({ ...value, ...references, [field]: bad }), undefined);
        expect(parsed).toMatchObject({ ok: false, issues: [{ path: [field] }] });
      }),
      { numRuns: 300 },
    );
  });

  it("is never recorded if it is not JSON", () => {
    fc.assert(
      fc.property(valid, fc.nat(), (value, seed) => {
        const text = JSON.stringify(value);
        const cut = text.slice(0, seed % text.length);
        expect(parseBody(cut, undefined).ok).toBe(false);
        expect(parseBody(bytesOf(cut), undefined).ok).toBe(false);
        expect(parseBody(`${text},`, undefined).ok).toBe(false);
        expect(parseBody(`[${text}]`, undefined).ok).toBe(false);
      }),
    );
  });
});

describe("any body", () => {
  it("is parsed without throwing, and an accepted one makes a valid event", () => {
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
      { numRuns: 1_000 },
    );
  });
});
