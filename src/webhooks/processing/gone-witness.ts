// Finds out whether the platform still returns other records of an account. A wrong token, a wrong base URL or a gateway may
// answer 404 for every record, and then no record is gone.

import { inAccount } from "../../account.ts";
import type { StayhookClient } from "../../client/client.ts";
import { ResponseValidationError } from "../../client/client-errors.ts";
import type { Booking, Listing } from "../../models/records.ts";
import { isOfRecord } from "../../queue/gate.ts";
import type { Outage } from "../../queue/work.ts";
import type { EventStore } from "../../stores/event-store.ts";
import type { RecordSnapshot, Snapshot } from "../../stores/snapshot.ts";
import { listingRef, parseRef, type Subject } from "../refs.ts";
import { isGone } from "./gone.ts";
import { baseOf, knownOf } from "./known-stay.ts";
import { readRecord } from "./read-record.ts";
import { fetchFailure } from "./record.ts";

/** The records that one answer is about: those of a kind in an account. */
type AccountKind = Pick<Subject, "account" | "kind">;

/** Why it is not clear that a record is gone. Its events wait as in an outage, and no attempt at them counts. */
export interface Doubt {
  /** `unavailable` if another record could not be read, and `not-found` if none was found. */
  readonly reason: "unavailable" | "not-found";
  readonly error: unknown;
  readonly outage: Outage;
}

/** A record that was not found. */
export interface Suspect {
  readonly ref: string;
  /** The record's last snapshot. `undefined` if the record is not known. */
  readonly previous: Snapshot | undefined;
  /** Whether the event has waited for `giveUpAfter`. Listings then vouch for bookings, even if no other booking is found. */
  readonly isGivenUp: boolean;
}

/** The failure of a record for which there is no witness. */
const NO_WITNESS: Outage = { everything: false, wholeKind: true };

/** How many other records are read. */
const ASKED = 3;
/** How many snapshots of the store are looked through for other records. */
const MOST_SNAPSHOTS = 1000;

/** Reads other records of an account before a record of it counts as gone. Remembers nothing, because any answer may be old. */
export class GoneWitness {
  readonly #client: StayhookClient<Booking, Listing>;
  readonly #store: Pick<EventStore<unknown>, "snapshots">;

  constructor(client: StayhookClient<Booking, Listing>, store: Pick<EventStore<unknown>, "snapshots">) {
    this.#client = client;
    this.#store = store;
  }

  /**
   * Finds out whether something else of the account of a missing record is found.
   *
   * @returns `undefined` if something is found
   */
  async ask({ ref, previous, isGivenUp }: Suspect, signal: AbortSignal): Promise<Doubt | undefined> {
    const kind = parseRef(ref)!;
    const others = await this.#others(kind, ref);
    let answer = await this.#readFirst(others, signal);
    if (answer === "missing" && isGivenUp)
      answer = await this.#readFirst(await this.#others(otherKind(kind), ref), signal);
    if (answer === "missing" && previous && (isGivenUp || others.length === 0))
      answer = await this.#readList(previous, kind, signal);
    if (typeof answer === "object") return answer;
    // Without any known record, none can be hidden.
    const isHidden = answer === "missing" && (previous !== undefined || others.length > 0);
    return isHidden ? doubtAbout(ref, kind, others) : undefined;
  }

  /** Whether another record of a refused record's account is found: one of its kind, if one is known. */
  async isOtherFound(ref: string, signal: AbortSignal): Promise<boolean> {
    const kind = parseRef(ref)!;
    const others = await this.#others(kind, ref);
    const asked = others.length > 0 ? others : await this.#others(otherKind(kind), ref);
    return (await this.#readFirst(asked, signal)) === "found";
  }

  /**
   * Whether a list of listings is that of an account, and not that of another account's token: it has a listing that is
   * known, or that of a known booking, or a known record is found. Any list is that of an account without known records.
   */
  async isOwnList(
    account: string | undefined,
    rows: readonly Listing[],
    signal: AbortSignal,
  ): Promise<boolean> {
    const listings = await this.#snapshots({ account, kind: "listing" });
    const refs = new Set(rows.map(({ listingId }) => listingRef(listingId, account)));
    if (listings.some(({ ref }) => refs.has(ref))) return true;
    const bookings = await this.#snapshots({ account, kind: "booking" });
    if (bookings.some(({ snapshot }) => hasListingOf(rows, snapshot))) return true;
    const asked = [...bookings.slice(0, ASKED), ...listings.slice(0, ASKED)].map(({ ref }) => ref);
    return asked.length === 0 || (await this.#readFirst(asked, signal)) === "found";
  }

  /** Reads records until one is found, or the platform does not answer for the whole account. One alone may be broken. */
  async #readFirst(refs: readonly string[], signal: AbortSignal): Promise<"found" | "missing" | Doubt> {
    let broken: Doubt | undefined;
    for (const ref of refs) {
      try {
        await readRecord(this.#client, parseRef(ref)!, signal);
        return "found";
      } catch (error) {
        signal.throwIfAborted();
        const { outage } = fetchFailure(error);
        if (outage) broken ??= { reason: "unavailable", error, outage };
        if (outage && !isOfRecord(outage)) return { reason: "unavailable", error, outage };
        // A refusal or an unexpected body is no record. A gateway may send its own page to everybody.
      }
    }
    return broken ?? "missing";
  }

  /**
   * Reads the list of listings, which vouches for a booking if it has the booking's own listing. With the token of another
   * account, there is a list, too.
   */
  async #readList(
    previous: Snapshot,
    { account, kind }: AccountKind,
    signal: AbortSignal,
  ): Promise<"found" | "missing" | Doubt> {
    if (kind !== "booking") return "missing";
    const { listings } = account === undefined ? this.#client : this.#client.account(account);
    let rows: readonly Listing[] = [];
    try {
      rows = await listings.list({ signal, maxRetries: 0 });
    } catch (error) {
      signal.throwIfAborted();
      const { outage } = fetchFailure(error);
      if (outage) return { reason: "unavailable", error, outage };
      if (error instanceof ResponseValidationError) rows = error.valid as readonly Listing[];
    }
    return hasListingOf(rows, previous) ? "found" : "missing";
  }

  /** Returns up to three other records that are known, those that were seen last first. A record does not vouch for itself. */
  async #others(kind: AccountKind, ref: string): Promise<string[]> {
    const known = await this.#snapshots(kind);
    return known.flatMap((other) => (other.ref === ref ? [] : [other.ref])).slice(0, ASKED);
  }

  /** Returns the snapshots of records that are not gone, the newest first. */
  async #snapshots(kind: AccountKind): Promise<RecordSnapshot[]> {
    const found: RecordSnapshot[] = [];
    const start = inAccount(kind.account, `${kind.kind}:`);
    let looked = 0;
    for await (const known of this.#store.snapshots({ after: start })) {
      looked += 1;
      if (!known.ref.startsWith(start) || looked > MOST_SNAPSHOTS) break;
      if (!isGone(known.snapshot)) found.push(known);
    }
    return found.sort((one, other) => other.seenAt.getTime() - one.seenAt.getTime());
  }
}

function doubtAbout(ref: string, { kind }: AccountKind, others: readonly string[]): Doubt {
  const asked =
    others.length > 0 ? `neither was ${others.join(", ")}` : "no other record that is known was found";
  const error = new Error(
    `${ref} was not found, and ${asked}, so the platform may hide every ${kind}. Check \`baseUrl\` and the access token. Nothing counts as gone until another ${kind} is found`,
  );
  return { reason: "not-found", error, outage: NO_WITNESS };
}

/** Whether a list has the listing of a booking. */
function hasListingOf(rows: readonly Listing[], booking: Snapshot): boolean {
  const own = [baseOf(booking).listingId, knownOf(booking).stay?.listingId].map(String);
  return rows.some(({ listingId }) => own.includes(String(listingId)));
}

function otherKind({ account, kind }: AccountKind): AccountKind {
  return { account, kind: kind === "booking" ? "listing" : "booking" };
}
