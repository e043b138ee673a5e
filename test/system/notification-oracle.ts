/**
 * The expected event. The code here is a second implementation of docs/how-it-works.md, and imports nothing from src.
 */
export interface Verdict {
  readonly eventId: string;
  readonly ref: string | null;
  /** In ms. `undefined` stands for the time of receipt. */
  readonly time: number | undefined;
}

/** Returns the event that must be recorded for a body, or `undefined` if none may be recorded. */
export function judge(body: Uint8Array): Verdict | undefined {
  const bytes = Buffer.from(body);
  const text = bytes.toString("utf8");
  // Bytes that are not valid UTF-8 do not survive the round trip.
  if (!Buffer.from(text, "utf8").equals(bytes)) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const own = (name: string): unknown => Object.getOwnPropertyDescriptor(value, name)?.value ?? null;
  const eventId = own("eventId");
  const time = momentOf(own("timestamp"));
  const given = { code: textOf(own("bookingCode")), listing: own("listingId") };
  const known = { code: isCode(given.code), listing: typeof listingOf(given.listing) === "number" };
  const code = isNothing(given.code) && known.listing && !isNothing(given.listing) ? null : given.code;
  const listing = isNothing(given.listing) && isSome(given.code) ? null : listingOf(given.listing);
  if (typeof eventId !== "string" || !isUuid(eventId)) return undefined;
  if ((code !== null && !isCode(code)) || listing === undefined) return undefined;
  return { eventId: eventId.toLowerCase(), ref: refOf(code as string | null, listing), time };
}

/** A whole number is taken as the text of a booking code. */
function textOf(code: unknown): unknown {
  return Number.isSafeInteger(code) && (code as number) > 0 ? String(code) : code;
}

/** `0`, `""` and white space count as missing if the other reference is present. */
function isNothing(reference: unknown): boolean {
  return reference === 0 || (typeof reference === "string" && /^[\s0]*$/.test(reference));
}

function isSome(code: unknown): boolean {
  return typeof code === "string" && !isNothing(code);
}

function refOf(code: string | null, listing: number | null): string | null {
  if (code !== null) return `booking:${code.trim() || code}`;
  return listing === null ? null : `listing:${listing}`;
}

function isUuid(text: string): boolean {
  const groups = text.split("-");
  return (
    groups.map((group) => group.length).join() === "8,4,4,4,12" && /^[0-9A-Fa-f]+$/.test(groups.join(""))
  );
}

function isCode(given: unknown): boolean {
  if (typeof given !== "string") return false;
  const value = given.trim() || given;
  if (["", ".", ".."].includes(value) || !value.isWellFormed()) return false;
  const points = Array.from(value, (character) => character.codePointAt(0) as number);
  return points.length <= 256 && points.every((point) => point >= 32 && !(point >= 127 && point <= 159));
}

/** Returns `undefined` if the value is neither null nor an integer. */
function listingOf(value: unknown): number | null | undefined {
  if (value === null) return null;
  const number = typeof value === "string" && /^[0-9]+$/.test(value) ? Number(value) : value;
  return typeof number === "number" && Number.isSafeInteger(number) ? number : undefined;
}

/** Parses ISO 8601 to ms. The offset, the seconds, and the separators may be missing. */
function momentOf(given: unknown): number | undefined {
  const value = typeof given === "string" ? given.trim() : given;
  const number = typeof value === "string" && /^[0-9]{9,}$/.test(value) ? Number(value) : value;
  if (typeof number === "number") {
    const ms = number < 1e11 ? number * 1000 : number;
    return number >= 1e8 && ms < Date.parse("9999-12-31T23:59:59.999Z") ? ms : undefined;
  }
  if (typeof value !== "string") return undefined;
  const [, date = "", hours = "", seconds = "", fraction = "", zone = ""] =
    /^([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8})[Tt ]([0-9]{2}:?[0-9]{2})(:?[0-9]{2})?([.,][0-9]+)?([Zz]|[+-][0-9]{2}:?[0-9]{2}|[+-][0-9]{2})?$/.exec(
      value,
    ) ?? [];
  if (date === "" || (fraction !== "" && seconds === "")) return undefined;
  const digits = date.replaceAll("-", "");
  const day = `${digits.slice(0, 4)}-${digits.slice(4, 6)}-${digits.slice(6)}`;
  const [hour, minute] = [Number(hours.slice(0, 2)), Number(hours.slice(-2))];
  const second = Number(seconds.slice(-2));
  const ms = Number(`0${fraction.replace(",", ".")}`) * 1000;
  const midnight = Date.parse(`${day}T00:00:00Z`);
  // Date.parse accepts February 30 as March 2, so compare the day.
  if (Number.isNaN(midnight) || new Date(midnight).toISOString().slice(0, 10) !== day) return undefined;
  const [, sign, offsetHours = "0", offsetMinutes = "0"] = /^([+-])(\d\d):?(\d\d)?$/.exec(zone) ?? [];
  const offset = (sign === "-" ? -1 : 1) * (Number(offsetHours) * 60 + Number(offsetMinutes));
  if (Number(offsetHours) > 23 || Number(offsetMinutes) > 59) return undefined;
  const time = midnight + ((hour * 60 + minute - offset) * 60 + second) * 1000 + Math.trunc(ms);
  const endOfDay = hour === 24 && minute === 0 && second === 0 && Math.trunc(ms) === 0;
  const leap = second === 60 && minute <= 59 && new Date(time).toISOString().slice(11, 19) === "00:00:00";
  return (hour <= 23 || endOfDay) && minute <= 59 && (second <= 59 || leap) ? time : undefined;
}
