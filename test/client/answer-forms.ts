import fc from "fast-check";

// The platform's bodies are not documented. These are the forms that an answer may have.

export type ValueOf<A> = A extends fc.Arbitrary<infer T> ? T : never;
export type Path = (string | number)[];
export type Kind = "booking" | "listing" | "config";
export interface Wrapped {
  readonly json: unknown;
  /** The path to the record. */
  readonly path: Path;
}

export const kinds = fc.constantFrom<Kind>("booking", "listing", "config");
export const identities = { booking: "bookingCode", listing: "listingId", config: "isActive" } as const;

/** The dates 2026-07-01 to 2026-07-04, in each form that a platform may send. */
const dates = fc.constantFrom<[unknown, unknown]>(
  ["2026-07-01", "2026-07-04"],
  ["2026/07/01", "2026/07/04"],
  ["20260701", "20260704"],
  ["2026-07-01T15:00:00+02:00", "2026-07-04T11:00:00Z"],
  [1782864000, 1783123200],
  [1782864000000, 1783123200000],
  ["1782864000", "1783123200000"],
);
const noDates = fc.constantFrom<[unknown, unknown]>([null, null], [undefined, undefined], ["soon", {}]);

/** Fields beside the record. The client must not mistake them for an envelope. */
const furtherFields = fc.subarray([
  ["code", 404],
  ["data", null],
  ["item", {}],
  ["error", "none"],
  ["success", false],
  ["toString", 1],
  ["listing", { listingId: 99, status: "Published" }],
  ["previous", { bookingCode: "OTHER", status: "Declined", isActive: false, endpoints: {} }],
] as [string, unknown][]);

export const records = fc.record({
  kind: kinds,
  status: fc.constantFrom("Request", "Published", "Brand-new"),
  digits: fc.boolean(),
  dates: fc.oneof(dates, noDates),
  further: furtherFields,
});

/** Makes a record as the platform sends it, and as the client must return it. */
export function sentAndGiven({
  kind,
  status,
  digits,
  dates: [checkIn, checkOut],
  further,
}: ValueOf<typeof records>) {
  const more = Object.fromEntries(further);
  const listingId = digits ? "7" : 7;
  const sent = {
    booking: { ...more, bookingCode: "HX3K9", status, listingId, checkIn, checkOut },
    listing: { ...more, listingId, status },
    config: { ...more, isActive: digits, endpoints: { bookings: "https://h.example/", messages: null } },
  }[kind];
  const sentJson = JSON.parse(JSON.stringify(sent));
  const given = kind === "config" ? { endpoints: { bookings: "https://h.example/" } } : { listingId: 7 };
  return { sent: sentJson, given: { ...sentJson, ...given } };
}

const names = ["data", "booking", "listing", "config", "result", "anything"];
/** Fields beside the payload in a success envelope. */
export const beside = fc.subarray([
  ["success", true],
  ["code", 0],
  ["statusCode", 200],
  ["message", "here you are"],
  ["error", null],
  ["errors", []],
  ["meta", { page: 1 }],
  ["requestedAt", "2026-01-31T12:00:00Z"],
] as [string, unknown][]);
export const layers = fc.record({ name: fc.constantFrom(...names), beside });

/** Envelopes of a value: up to two wrappers, and at most one array, which is around the value or around a wrapper. */
export const envelopes = fc.record({
  wrappers: fc.array(layers, { maxLength: 2 }),
  arrayAt: fc.constantFrom(undefined, 0, 1, 2),
});

export function wrap(value: unknown, { wrappers, arrayAt }: ValueOf<typeof envelopes>): Wrapped {
  let json = value;
  let path: Path = [];
  const inArray = (level: number): void => {
    if (level !== arrayAt) return;
    json = [json];
    path = [0, ...path];
  };
  inArray(0);
  for (const [index, layer] of wrappers.entries()) {
    json = { ...Object.fromEntries(layer.beside), [layer.name]: json };
    path = [layer.name, ...path];
    inArray(index + 1);
  }
  return { json, path };
}
