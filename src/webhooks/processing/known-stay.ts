// What a snapshot keeps beside the fields: the stay that the user's side knows, and the platform's form of compared fields.

import { dayOf, daysIn, isInstant, type Stay, stay } from "../../models/dates.ts";
import { listingIdOf, toInteger } from "../../models/ids.ts";
import { HOLDS, holdsIn } from "../../models/statuses.ts";
import type { Snapshot, TrackedValue } from "../../stores/snapshot.ts";
import { type ReadRecord, read, type SentFields } from "./read-record.ts";

/** The fields of a stay. */
export type SentStay = Pick<SentFields, "checkIn" | "checkOut" | "listingId">;

/** A stay without the code of its booking and its nights. */
export interface HeldStay {
  readonly listingId: number;
  readonly checkIn: string;
  readonly checkOut: string;
}

/** What a snapshot knows beside its fields. */
interface Known {
  /** The stay that the user's side knows. It is `undefined` if none holds there. */
  readonly stay?: HeldStay | undefined;
  /** Whether a callback has handled an event of the booking. If none has, the last event counts as handled. */
  readonly handled: boolean;
  /** Since when the booking is a request, epoch ms. Only a booking with the status `Request` has it. */
  readonly requestedAt?: number | undefined;
  /** The fields that are always compared, where `track` has given them another form. */
  readonly read?: Readonly<Record<string, TrackedValue>> | undefined;
}

/**
 * Returns the fields of a booking's stay as the platform sent them. Takes the model's value for a field that the platform
 * did not send, or that only the model's value can be read of.
 */
export function stayValuesOf({ record, sent }: ReadRecord): Required<SentStay> {
  const value = (name: keyof SentStay, isReadable: (value: unknown) => boolean): unknown => {
    const given = sent[name];
    if (isReadable(given)) return given;
    const made = read(record, name);
    return isReadable(made) ? made : (given ?? made);
  };
  const isDay = (date: unknown) => dayOf(date) !== undefined;
  return {
    checkIn: value("checkIn", isDay),
    checkOut: value("checkOut", isDay),
    listingId: value("listingId", (id) => toInteger(id) !== undefined),
  };
}

/**
 * Returns the fields of a booking's stay. Each field that can be read has one form, whatever the platform's.
 *
 * @param isZoneKnown - if it is `false`, a date that is a time is left out, because nobody knows its day: it is then not
 * compared, and the snapshot keeps the day before
 */
export function stayFieldsOf(
  given: ReadRecord,
  timeZone: string | undefined,
  isZoneKnown = true,
): Readonly<Record<string, unknown>> {
  const dayIn = daysIn(timeZone);
  const { checkIn, checkOut, listingId } = stayValuesOf(given);
  const isLeftOut = (date: unknown) => !isZoneKnown && isInstant(date);
  return {
    ...(!isLeftOut(checkIn) && { checkIn: dayOf(checkIn, dayIn) ?? checkIn }),
    ...(!isLeftOut(checkOut) && { checkOut: dayOf(checkOut, dayIn) ?? checkOut }),
    listingId: toInteger(listingId) ?? listingId,
  };
}

/** @throws InvalidArgumentError if the stay cannot be read */
export function readStay(fields: SentStay): Stay & { readonly listingId: number } {
  return { listingId: listingIdOf(fields), ...stay(fields) };
}

/** Returns the stay that the user's side knows after the snapshot's event. */
export function knownOf(snapshot: Snapshot): Known {
  if (snapshot.known === undefined) return plain(snapshot);
  const { listingId, checkIn, checkOut, ...rest } = JSON.parse(snapshot.known) as Known & Partial<HeldStay>;
  const isHeld = listingId !== undefined && checkIn !== undefined && checkOut !== undefined;
  return { ...rest, stay: isHeld ? { listingId, checkIn, checkOut } : undefined };
}

/** What a snapshot says by its fields alone. The rule must not depend on `holds`, which a deployment may change. */
function plain({ status, fields }: Snapshot): Known {
  try {
    if (!holdsIn(status, HOLDS)) return { handled: true };
    const { listingId, checkIn, checkOut } = readStay(fields);
    return { stay: { listingId, checkIn, checkOut }, handled: true };
  } catch {
    return { handled: true };
  }
}

/** Returns the fields that are always compared, in the platform's form. */
export function baseOf(snapshot: Snapshot): Snapshot["fields"] {
  return snapshot.known === undefined ? snapshot.fields : { ...snapshot.fields, ...knownOf(snapshot).read };
}

/** Adds to a snapshot what it knows beside its fields, unless they say the same. */
export function withKnown(snapshot: Snapshot, known: Known): Snapshot {
  const text = textOf(known);
  return text === textOf(plain(snapshot)) ? snapshot : { ...snapshot, known: text };
}

function textOf({ stay, handled, requestedAt, read }: Known): string {
  const { listingId, checkIn, checkOut }: Partial<HeldStay> = stay ?? {};
  return JSON.stringify({ listingId, checkIn, checkOut, handled, requestedAt, read });
}
