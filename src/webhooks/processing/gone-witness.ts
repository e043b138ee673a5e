// Finds out whether the platform still returns other records of an account. A wrong token, a wrong base URL or a gateway may
// answer 404 for every record, and then no record is gone.

import { inAccount } from "../../account.ts";
import type { StayhookClient } from "../../client/client.ts";
import { ResponseValidationError } from "../../client/client-errors.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { Outage } from "../../queue/work.ts";
import type { EventStore } from "../../stores/event-store.ts";
import type { RecordSnapshot, Snapshot } from "../../stores/snapshot.ts";
import { listingRef, parseRef, type Subject } from "../refs.ts";
import { isGone } from "./gone.ts";
import { knownStayOf } from "./known-stay.ts";
import { readRecord } from "./read-record.ts";
import { fetchFailure } from "./record.ts";

/** The records that one answer is about: those of a kind in an account. */
type AccountKind = Pick<Subject, "account" | "kind">;

interface Found {
  readonly ref: string;
  /** When the request began, on the monotonic clock. */
  readonly since: number;
}

/** Why it is not clear that a record is gone. The events wait as in an outage. */
export interface Doubt {
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
  /** An answer to a request that began later vouches, too; on the monotonic clock. Default: others are read now. */
  readonly since?: number | undefined;
}

/** The failure of a record for which there is no witness. */
const NO_WITNESS: Outage = { everything: false, wholeKind: true };

/** How many other records are read. */
const ASKED = 3;
/** How many records of a kind that were found are remembered. */
const FOUND = 8;
/** How many snapshots of the store are looked through for other records. */
const MOST_SNAPSHOTS = 1000;

/** Knows which records the platform has returned, and reads some of them before another record counts as gone. */
export class GoneWitness {
  readonly #client: StayhookClient<Booking, Listing>;
  readonly #store: Pick<EventStore<unknown>, "snapshots">;
  /** By kind: the records that were found. The last one is first. */
  readonly #found = new Map<string, readonly Found[]>();
  /** By kind: the doubt about all records. */
  readonly #doubts = new Map<string, Doubt>();

  constructor(client: StayhookClient<Booking, Listing>, store: Pick<EventStore<unknown>, "snapshots">) {
    this.#client = client;
    this.#store = store;
  }

  /** Notes that the platform returned a record. @param since - when the request began, on the monotonic clock */
  found(ref: string, since: number): void {
    this.missed(ref);
    const kind = nameOf(parseRef(ref)!);
    this.#found.set(kind, [{ ref, since }, ...this.#found.get(kind)!].slice(0, FOUND));
    this.#doubts.delete(kind);
  }

  /** Notes that the platform did not return a record. */
  missed(ref: string): void {
    const kind = parseRef(ref)!;
    this.#found.set(nameOf(kind), this.#foundBut(ref, kind));
  }

  /** Returns the records of a kind that were found. A record does not vouch for itself, although an event may have found it. */
  #foundBut(ref: string, kind: AccountKind): readonly Found[] {
    return (this.#found.get(nameOf(kind)) ?? []).filter((other) => other.ref !== ref);
  }

  /** The doubt about all records of a kind. `undefined` if something was found when it was last asked for. */
  doubtOf(kind: AccountKind): Doubt | undefined {
    return this.#doubts.get(nameOf(kind));
  }

  /**
   * Finds out whether something else of the account of a missing record is found.
   *
   * @returns `undefined` if something is found
   */
  async ask(suspect: Suspect, signal: AbortSignal): Promise<Doubt | undefined> {
    const { ref, isGivenUp, since = Number.POSITIVE_INFINITY } = suspect;
    const kind = parseRef(ref)!;
    if (this.#foundBut(ref, kind).some((other) => other.since > since)) return undefined;
    const others = await this.#others(kind, ref);
    let answer = await this.#readFirst(others, signal);
    if (answer === "missing" && isGivenUp)
      answer = await this.#readFirst(await this.#others(otherKind(kind), ref), signal);
    if (answer === "missing" && suspect.previous && (isGivenUp || others.length === 0))
      answer = await this.#readList(suspect.previous, kind, signal);
    // Without any known record, none can be hidden.
    const isHidden = answer === "missing" && (suspect.previous !== undefined || others.length > 0);
    if (isHidden) return this.#doubt(kind, ref, others);
    if (typeof answer === "object") return answer;
    this.#doubts.delete(nameOf(kind));
    return undefined;
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

  /** Reads records until one is found, or the platform does not answer. */
  async #readFirst(refs: readonly string[], signal: AbortSignal): Promise<"found" | "missing" | Doubt> {
    for (const ref of refs) {
      const since = performance.now();
      try {
        await readRecord(this.#client, parseRef(ref)!, signal);
        this.found(ref, since);
        return "found";
      } catch (error) {
        signal.throwIfAborted();
        const { outage } = fetchFailure(error);
        if (outage) return { error, outage };
        this.missed(ref);
        // A refusal or an unexpected body is no record. A gateway may send its own page to everybody.
      }
    }
    return "missing";
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
      if (outage) return { error, outage };
      if (error instanceof ResponseValidationError) rows = error.valid as readonly Listing[];
    }
    return hasListingOf(rows, previous) ? "found" : "missing";
  }

  /** Returns up to three other records that are known, those that were found last first. */
  async #others(kind: AccountKind, ref: string): Promise<string[]> {
    const others = new Set(this.#foundBut(ref, kind).map((other) => other.ref));
    if (others.size < ASKED)
      for (const known of await this.#snapshots(kind)) if (known.ref !== ref) others.add(known.ref);
    return [...others].slice(0, ASKED);
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

  #doubt(kind: AccountKind, ref: string, others: readonly string[]): Doubt {
    const asked =
      others.length > 0 ? `neither was ${others.join(", ")}` : "no other record that is known was found";
    const error = new Error(
      `${ref} was not found, and ${asked}, so the platform may hide every ${kind.kind}. Check \`baseUrl\` and the access token. Nothing counts as gone until another ${kind.kind} is found`,
    );
    const doubt = { error, outage: NO_WITNESS };
    this.#doubts.set(nameOf(kind), doubt);
    return doubt;
  }
}

/** Whether a list has the listing of a booking. */
function hasListingOf(rows: readonly Listing[], booking: Snapshot): boolean {
  const own = [booking.fields.listingId, knownStayOf(booking).listingId].map(String);
  return rows.some(({ listingId }) => own.includes(String(listingId)));
}

function otherKind({ account, kind }: AccountKind): AccountKind {
  return { account, kind: kind === "booking" ? "listing" : "booking" };
}

function nameOf({ account, kind }: AccountKind): string {
  return inAccount(account, kind);
}
