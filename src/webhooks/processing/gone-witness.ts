// Finds out whether the platform still returns anything. A wrong token, a wrong base URL or a gateway may answer 404 for
// every record, and then no record is gone.

import { inAccount } from "../../account.ts";
import type { StayhookClient } from "../../client/client.ts";
import { ResponseValidationError } from "../../client/client-errors.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { Outage } from "../../queue/work.ts";
import type { EventStore } from "../../stores/event-store.ts";
import type { RecordSnapshot } from "../../stores/snapshot.ts";
import { listingRef, parseRef, type Subject } from "../refs.ts";
import { isGone } from "./gone.ts";
import { readRecord } from "./read-record.ts";
import { fetchFailure } from "./record.ts";

/** The records that one answer is about: those of a kind in an account. */
type AccountKind = Pick<Subject, "account" | "kind">;

/** Why it is not clear that a record is gone. The events wait as in an outage. */
export interface Doubt {
  readonly error: unknown;
  readonly outage: Outage;
}

/** When the question is asked. */
interface Asked {
  /** Whether the answer decides that the record is gone. An earlier answer does not suffice then. */
  readonly isLast: boolean;
  /** Whether the event has waited for `giveUpAfter`. The listings then decide, even if other bookings are known. */
  readonly isGivenUp: boolean;
}

/** What the read of another record told. A {@link Doubt} tells nothing, because the platform did not answer. */
type Said = "found" | "missing" | Doubt;

/** The failure of a record for which there is no witness. */
const NO_WITNESS: Outage = { everything: false, wholeKind: true };

/** How many other records are asked. */
const ASKED = 3;
/** How many records that were found, and how many missing ones, are remembered. */
const [KNOWN, MISSING] = [8, 1000];
/** How many events and snapshots of the store are looked through for other records. */
const LOOKED = { events: 100, snapshots: 1000 } as const;

/** Knows which records the platform has returned, and asks for some of them before another record counts as gone. */
export class GoneWitness {
  readonly #client: StayhookClient<Booking, Listing>;
  readonly #store: Pick<EventStore<unknown>, "list" | "snapshotOf" | "snapshots">;
  /** By kind: the records that were found, the last one first. */
  readonly #known = new Map<string, readonly string[]>();
  /** By kind: the last answer with a record, and when its request began, on the monotonic clock. */
  readonly #found = new Map<string, { readonly ref: string; readonly since: number }>();
  /** When each missing record was first not found, on the monotonic clock. */
  readonly #missing = new Map<string, number>();
  readonly #doubts = new Map<string, Doubt>();

  constructor(
    client: StayhookClient<Booking, Listing>,
    store: Pick<EventStore<unknown>, "list" | "snapshotOf" | "snapshots">,
  ) {
    this.#client = client;
    this.#store = store;
  }

  /** Notes that the platform returned a record. @param since - when the request began, on the monotonic clock */
  found(ref: string, since: number): void {
    const kind = nameOf(parseRef(ref)!);
    const known = this.#known.get(kind) ?? [];
    if (known[0] !== ref)
      this.#known.set(kind, [ref, ...known.filter((other) => other !== ref)].slice(0, KNOWN));
    this.#missing.delete(ref);
    this.#isFound(kind, ref, since);
  }

  /** Notes that the platform did not return a record. */
  missed(ref: string): void {
    const kind = nameOf(parseRef(ref)!);
    const known = this.#known.get(kind);
    if (known)
      this.#known.set(
        kind,
        known.filter((other) => other !== ref),
      );
    if (!this.#missing.has(ref) && this.#missing.size < MISSING) this.#missing.set(ref, performance.now());
  }

  /** The doubt about all records of a kind. `undefined` if something was found when it was last asked for. */
  doubtOf(kind: AccountKind): Doubt | undefined {
    return this.#doubts.get(nameOf(kind));
  }

  /**
   * Asks whether something else of the account was found since the record was first not found.
   *
   * @returns `undefined` if something was found
   */
  async ask(ref: string, signal: AbortSignal, { isLast, isGivenUp }: Asked): Promise<Doubt | undefined> {
    const kind = parseRef(ref)!;
    const since = this.#missing.get(ref);
    if (!isLast && since !== undefined && this.#isFoundSince(nameOf(kind), ref, since)) return undefined;
    const doubt = await this.#askOthers(kind, ref, signal);
    // An outage says nothing about the records.
    return isGivenUp && doubt?.outage === NO_WITNESS ? await this.#askListings(kind, ref, signal) : doubt;
  }

  async #askOthers(kind: AccountKind, ref: string, signal: AbortSignal): Promise<Doubt | undefined> {
    const others = await this.#others(kind, ref);
    if (others.length === 0) return this.#askList(kind, ref, signal);
    for (const other of others) {
      const said = await this.#read(other, signal);
      if (said === "found") return undefined;
      if (said !== "missing") return said;
    }
    return this.#doubt(kind, `${ref} was not found, and neither was ${others.join(", ")}`);
  }

  /** Asks for the listings, which also vouch for bookings after `giveUpAfter`. One that is known suffices, or the list. */
  async #askListings(kind: AccountKind, ref: string, signal: AbortSignal): Promise<Doubt | undefined> {
    const { account } = kind;
    // The other listings were asked already if the record is a listing itself.
    const listings = kind.kind === "booking" ? await this.#others({ account, kind: "listing" }, ref) : [];
    for (const listing of listings) {
      const since = performance.now();
      if ((await this.#read(listing, signal)) !== "found") continue;
      this.#isFound(nameOf(kind), listing, since);
      return undefined;
    }
    return await this.#askList(kind, ref, signal);
  }

  async #askList(kind: AccountKind, ref: string, signal: AbortSignal): Promise<Doubt | undefined> {
    const since = performance.now();
    const { account } = kind;
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
    if (!(await this.#isOwn(kind, ref, rows)))
      return this.#doubt(kind, `${ref} was not found, and the list of listings has none that is known`);
    this.#isFound(nameOf(kind), "listings", since);
    return undefined;
  }

  /** Whether a list is that of this account. The token of another account gets a list, too. */
  async #isOwn({ account }: AccountKind, asked: string, rows: readonly Listing[]): Promise<boolean> {
    if (rows.length === 0) return false;
    const known = new Set((await this.#snapshots({ account, kind: "listing" })).map(({ ref }) => ref));
    // A listing that is gone is in no list, so it must not be the only one that a list could be known by.
    known.delete(asked);
    return known.size === 0 || rows.some(({ listingId }) => known.has(listingRef(listingId, account)));
  }

  async #read(ref: string, signal: AbortSignal): Promise<Said> {
    const since = performance.now();
    const subject = parseRef(ref)!;
    try {
      await readRecord(this.#client, subject, signal);
    } catch (error) {
      signal.throwIfAborted();
      const { outage, reason } = fetchFailure(error);
      if (outage) return { error, outage };
      if (reason === "not-found") this.missed(ref);
      // A refusal or an unexpected body is no record. A gateway may send its own page to everybody.
      return "missing";
    }
    this.found(ref, since);
    return "found";
  }

  /** Returns up to three other known records, those that were read last first. */
  async #others(kind: AccountKind, ref: string): Promise<string[]> {
    const name = nameOf(kind);
    const others = new Set(this.#known.get(name));
    others.delete(ref);
    if (others.size < ASKED) {
      const events = await this.#store.list({ state: "done", limit: LOOKED.events });
      for (const each of new Set(events.map((event) => event.ref))) {
        const subject = parseRef(each);
        if (others.size >= ASKED || each === ref || !subject || nameOf(subject) !== name) continue;
        const known = await this.#store.snapshotOf(each!);
        if (known && !isGone(known.snapshot)) others.add(each!);
      }
    }
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
      if (!known.ref.startsWith(start) || looked > LOOKED.snapshots) break;
      if (!isGone(known.snapshot)) found.push(known);
    }
    return found.sort((one, other) => other.seenAt.getTime() - one.seenAt.getTime());
  }

  #isFound(kind: string, ref: string, since: number): void {
    this.#found.set(kind, { ref, since });
    this.#doubts.delete(kind);
  }

  #isFoundSince(kind: string, ref: string, since: number): boolean {
    const found = this.#found.get(kind);
    return found !== undefined && found.ref !== ref && found.since > since;
  }

  #doubt(kind: AccountKind, what: string): Doubt {
    const error = new Error(
      `${what}, so the platform may hide every ${kind.kind}. Check \`baseUrl\` and the access token. Nothing counts as gone until another ${kind.kind} is found`,
    );
    const doubt = { error, outage: NO_WITNESS };
    this.#doubts.set(nameOf(kind), doubt);
    return doubt;
  }
}

function nameOf({ account, kind }: AccountKind): string {
  return inAccount(account, kind);
}
