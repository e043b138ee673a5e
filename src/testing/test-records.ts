import { refuse } from "../sandbox/records.ts";

export type RecordKind = "booking" | "listing";

export interface TestRecord {
  readonly status: string;
  readonly bookingCode?: unknown;
  readonly listingId?: unknown;
}

const day = 86_400_000;

/** A booking or listing with the given fields, and defaults for the others. */
export function testRecord(kind: RecordKind, status: string, given: unknown, now: Date): TestRecord {
  if (given !== undefined && (typeof given !== "object" || given === null)) refuse("must be an object", kind);
  const fields = Object.fromEntries(Object.entries(given ?? {}).filter(([, value]) => value !== undefined));
  const defaults =
    kind === "booking" ? defaultBooking(fields, now) : { listingId: 5717008, listingName: "Harbour Loft" };
  return { ...defaults, ...fields, status };
}

/** A stay of three nights: next to the date that was given, or two weeks after `now`. */
function defaultBooking({ checkIn, checkOut }: Readonly<Record<string, unknown>>, now: Date) {
  const arrival = moment(checkIn) ?? moment(checkOut, -3) ?? now.getTime() + 14 * day;
  return {
    bookingCode: "HX3K9",
    listingId: 5717008,
    checkIn: toDate(arrival),
    checkOut: toDate(arrival + 3 * day),
  };
}

function moment(date: unknown, days = 0): number | undefined {
  const parsed = typeof date === "string" ? Date.parse(date.slice(0, 10)) + days * day : Number.NaN;
  return Number.isNaN(parsed) ? undefined : parsed;
}

const toDate = (moment: number): string => new Date(moment).toISOString().slice(0, 10);
