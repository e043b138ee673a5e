import { inAccount } from "../account.ts";
import { forEach } from "../async.ts";
import { ResponseValidationError } from "../client/client-errors.ts";
import { listFactsOf } from "../client/paging.ts";
import { stay } from "../models/dates.ts";
import type { Booking, Listing, WebhookConfig } from "../models/records.ts";
import { bookingTable, type Status } from "../models/statuses.ts";
import type { EventState } from "../stores/event-states.ts";
import type { RecordSnapshot } from "../stores/snapshot.ts";
import type { DriftObservation, ReconcilerAlarm } from "../webhooks/observability.ts";
import { goneRecordOf, isGone } from "../webhooks/processing/gone.ts";
import { compare, fetchFailure, type TrackedSnapshot } from "../webhooks/processing/record.ts";
import { listingRef, parseRef } from "../webhooks/refs.ts";
import { handleEvents } from "./handle-events.ts";
import type { MissedChanges } from "./missed-changes.ts";
import type { ExpectedUrls, Settings } from "./options.ts";
import type { Reader, StopReason } from "./reader.ts";
import type { Progress } from "./state.ts";

const DAY = 24 * 60 * 60_000;
/** How long a booking may still change after its last day, ms. */
const AFTERWARDS = 7 * DAY;
/** How many events whose record was not found a pass replays, the newest ones. */
const NOT_FOUND_REPLAYED = 100;
/** Why the read of a parked event failed, apart from records that were not found. */
const READ_FAILED = ["denied", "invalid-record", "unavailable"] as const;
const WAITING: readonly EventState[] = ["pending", "processing", "retrying"];

export interface PassOptions extends Settings {
  readonly stop: StopReason;
  readonly reader: Reader;
  readonly changes: MissedChanges;
  /** The state from which this pass starts. */
  readonly state: Pick<Progress, "after" | "learned" | "replayed">;
  /** Bookings that the user passed to `watch`. The pass drops a booking from this set if it has a snapshot. */
  readonly watched: Set<string>;
}

/** A record to check. Call `done` when the pass is done with the record. */
interface Step {
  readonly known: RecordSnapshot;
  readonly done: () => void;
}

/** A known record that was not found. */
interface Missing {
  readonly ref: string;
  readonly done: () => void;
}

/** One pass through all listings and all bookings that can still change. */
export class Pass {
  readonly #options: PassOptions;
  readonly #checkpoint: Checkpoint;
  readonly #listed = new Set<string>();
  /** The `done` functions of unreachable records. The pass calls them when the platform answers for another record. */
  readonly #unreached: (() => void)[] = [];
  readonly #missing: Missing[] = [];
  /** Whether it is not clear if records are gone, or if the platform hides them all. */
  #isInDoubt = false;
  #replayed: boolean;
  /** Whether the pass has compared or recorded all valid rows of the list. */
  #learned = false;
  /** Whether the client has read all pages of the list. */
  #listIsWhole = false;
  #complete = false;
  checked = 0;
  changed = 0;
  failed = 0;
  partial = false;

  constructor(options: PassOptions) {
    this.#options = options;
    this.#checkpoint = new Checkpoint(options.state.after);
    this.#replayed = options.state.replayed;
  }

  get progress(): Progress {
    const complete = this.#complete;
    const learned = this.#options.state.learned || this.#learned;
    const after = complete ? null : this.#checkpoint.after;
    return { complete, after, learned, replayed: this.#replayed };
  }

  /** @throws errors of the store */
  async run(): Promise<void> {
    const { stop, reader } = this.#options;
    await this.#checkConfig();
    if (stop.reason === undefined) await this.#checkListings();
    if (stop.reason === undefined) await this.#checkBookings();
    if (stop.reason === undefined) await this.#checkMissing();
    // A pass with few reads may end before the reader detects the outage.
    if (!reader.answered || this.#isInDoubt) stop.stop("unreachable");
    this.#complete = stop.reason === undefined;
  }

  async #checkConfig(): Promise<void> {
    const { client, stop } = this.#options;
    const expected = await this.#expectedEndpoints();
    try {
      // Do not use the reader: an answer about the configuration says nothing about records.
      const config = await client.webhookConfig.get({ signal: stop.signal, maxRetries: 0 });
      this.#warnOf(config, expected);
      const drift = driftOf(config, expected ?? {});
      if (drift) this.#alarm(drift);
    } catch {
      // Report no drift: the configuration could not be read, and may be right.
    }
  }

  /** Returns `undefined` if the user's function fails. The pass goes on. */
  async #expectedEndpoints(): Promise<ExpectedUrls | undefined> {
    const { account, expectedEndpoints, log } = this.#options;
    try {
      return await expectedEndpoints();
    } catch (error) {
      const whose = account === undefined ? "" : ` for account ${account}`;
      const message = `\`expectedEndpoints\` failed${whose}, so the webhook configuration was not compared`;
      log.limited("expected", "error", message, { error, account, fromUserCode: true });
      return undefined;
    }
  }

  /** Warns if the platform sends no notifications, or none for a topic for which the handler has callbacks. */
  #warnOf(config: WebhookConfig | undefined, expected: ExpectedUrls | undefined): void {
    const { account, internals, log } = this.#options;
    // Tests and first steps may have no configuration on purpose.
    if (!config && Object.keys(expected ?? {}).length === 0) return;
    const urls: Readonly<Record<string, unknown>> = { ...config?.endpoints };
    const missing = internals.topics.filter((topic) => urls[topic] === undefined).join(" and ");
    const nothing = "so the platform sends no notifications";
    let problem: string | undefined;
    if (!config) problem = `there is no webhook configuration, ${nothing}`;
    else if (!config.isActive) problem = `the webhook configuration is off, ${nothing}`;
    else if (missing !== "")
      problem = `the webhook configuration has no URL for ${missing}, ${nothing} of ${missing}`;
    if (problem === undefined) return;
    const [whose, option] =
      account === undefined ? ["", ""] : [`account ${account}: `, ` --account ${account}`];
    log.limited("config", "warn", `${whose}${problem}. Run: npx stayhook config ensure${option}`, {
      account,
    });
  }

  /**
   * Replays the events that were parked because their record could not be read. An event of a new booking is the only
   * trace of that booking, and strangers can cause any number of not-found ones.
   */
  async #replayParked(): Promise<void> {
    if (this.#replayed) return;
    this.#replayed = true;
    const { account, store } = this.#options;
    const parked = { state: "parked", ...(account !== undefined && { account }) } as const;
    const notFound = await store.list({ ...parked, reason: "not-found", limit: NOT_FOUND_REPLAYED });
    let replayed = 0;
    for (const { eventId } of notFound)
      replayed += await store.replay({ eventId, state: "parked", reason: "not-found" });
    for (const reason of READ_FAILED) replayed += await store.replay({ ...parked, reason });
    if (replayed > 0) handleEvents(this.#options);
  }

  async #checkListings(): Promise<void> {
    const { account, client, reader, stop, concurrency } = this.#options;
    const list = inAccount(account, "listings");
    const read = await reader.read(list, (options) => client.listings.list(options));
    if (read === undefined) return;
    // The platform answers. The replayed events come before the reads, so that these find no change that waits.
    if (reader.answered) await this.#replayParked();
    const facts = listFactsOf(Object("error" in read ? read.error : read.value));
    const invalid = facts?.invalid ?? 0;
    this.partial = facts?.partial ?? false;
    if ("error" in read) this.#fail(list, read.error, Math.max(invalid, 1));
    const rows = "error" in read ? validRows(read.error) : read.value;
    // If listings move while the pages are read, a row may come twice.
    const once = new Map(rows.map((row) => [row.listingId, row]));
    await forEach(once.values(), concurrency, async (listing) => {
      if (stop.reason === undefined) await this.#checkListing(listing);
    });
    if (stop.reason !== undefined) return;
    const isRead = !("error" in read);
    // Ignore invalid rows. If one of them kept `#learned` false, no later pass would add an event for a new listing.
    this.#learned = isRead || invalid > 0;
    // An invalid row may be any listing. A listing that seems to be missing is read itself, so that this does no harm.
    this.#listIsWhole = this.#learned && !this.partial;
  }

  async #checkListing(listing: Listing): Promise<void> {
    const { account, store, state, baseline } = this.#options;
    const ref = listingRef(listing.listingId, account);
    this.#listed.add(ref);
    const row = this.#snapshotOf(ref, "listing", listing);
    if (!row) return;
    this.#options.internals.statusSeen("listing", row.snapshot.status, ref);
    const known = await store.snapshotOf(ref);
    if (!known && baseline && !state.learned) return this.#learn(ref, row);
    if (known && !compare(known.snapshot, row).changed) {
      this.#check(ref, row.snapshot.status);
      return this.#keepFromAge(known);
    }
    // Read the listing itself. The list may lack fields, and an event may have been handled after the list was read.
    await this.#checkRecord(ref, () => {}, row);
  }

  async #learn(ref: string, { snapshot: { status, fields } }: TrackedSnapshot): Promise<void> {
    this.#check(ref, status);
    // Leave out fields that the list lacks: a stored `null` would count as a change in the next event.
    const known = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
    // If an event of the listing waits, `learn` records nothing, so that the event's callback sees a change.
    if (await this.#options.store.learn(ref, { status, fields: known }))
      this.#options.observe({ kind: "learned", ref, status });
  }

  async #checkBookings(): Promise<void> {
    const { store, stop, concurrency, watched } = this.#options;
    for (const ref of watched) if (await store.snapshotOf(ref)) watched.delete(ref);
    const unseen = new Set(watched);
    await forEach(this.#steps(), concurrency, async ({ known, done }) => {
      if (stop.reason !== undefined) return;
      unseen.delete(known.ref);
      if (canChange(known)) await this.#checkRecord(known.ref, done);
      else done();
    });
    await forEach(unseen, concurrency, async (ref) => {
      if (stop.reason === undefined) await this.#checkRecord(ref, () => {});
    });
  }

  /** Yields the known bookings after the checkpoint, and the known listings that the list lacks. */
  async *#steps(): AsyncGenerator<Step> {
    const { account, store, stop, state } = this.#options;
    // The records of an account are one range of the store.
    const range = account === undefined ? undefined : inAccount(account, "");
    for await (const known of store.snapshots({ after: state.after ?? range })) {
      const { ref, snapshot } = known;
      if (stop.reason !== undefined || (range && !ref.startsWith(range))) return;
      const done = this.#checkpoint.begin(ref);
      const name = range ? ref.slice(range.length) : ref;
      if (name.startsWith("booking:")) {
        yield { known, done };
        continue;
      }
      // The list is only a hint: its pages may have moved while they were read.
      const isMissing = name.startsWith("listing:") && this.#listIsWhole && !this.#listed.has(ref);
      if (isMissing && !isGone(snapshot)) yield { known, done };
      else done();
    }
  }

  /** Adds events for the known records that were not found, if the platform returns others. */
  async #checkMissing(): Promise<void> {
    const { internals, stop, reader, changes, store } = this.#options;
    const doubted = new Set<string>();
    for (const { ref, done } of this.#missing) {
      const { kind } = parseRef(ref)!;
      if (doubted.has(kind)) continue;
      const asked = { isLast: false, isGivenUp: false };
      const asking = internals.goneWitness!.ask(ref, stop.signal, asked);
      const doubt = await asking.catch((error) => {
        if (!stop.signal.aborted) throw error;
      });
      if (stop.reason !== undefined) return;
      const known = await store.snapshotOf(ref);
      const gone =
        known && !isGone(known.snapshot) ? goneRecordOf(parseRef(ref)!, known.snapshot) : undefined;
      const eventId = gone && (await changes.add(ref, known, gone.snapshot, stop.signal));
      if (doubt) {
        // The event waits until the platform returns something, or until it gives up.
        doubted.add(kind);
        this.#isInDoubt = true;
        await reader.doubt(ref, doubt);
        continue;
      }
      if (eventId !== undefined) {
        this.changed += 1;
        this.#options.observe({ kind: "gone", ref, previousStatus: known!.snapshot.status });
      }
      done();
    }
  }

  /**
   * @param done - called when the pass is done with the record
   * @param row - the record's row in the list, used if the record itself cannot be read
   */
  async #checkRecord(ref: string, done: () => void, row?: TrackedSnapshot): Promise<void> {
    const { client, store, reader, internals } = this.#options;
    const { goneWitness } = internals;
    const subject = parseRef(ref);
    if (!subject) return done();
    const before = await store.snapshotOf(ref);
    const since = performance.now();
    const read = await reader.read<Booking | Listing>(ref, (options) =>
      subject.kind === "booking"
        ? client.bookings.get(subject.bookingCode, options)
        : client.listings.get(subject.listingId, options),
    );
    if (read === undefined) return;
    if (!("error" in read)) goneWitness!.found(ref, since);
    if ("error" in read && !row) {
      if (before && fetchFailure(read.error).reason === "not-found") {
        goneWitness!.missed(ref);
        return isGone(before.snapshot) ? done() : void this.#missing.push({ ref, done });
      }
      this.#fail(ref, read.error);
      // Do not call `done` yet. If no other record can be read either, the next pass begins with this record.
      if (!read.answered) return void this.#unreached.push(done);
    } else {
      const snapshot = "error" in read ? row : this.#snapshotOf(ref, subject.kind, read.value);
      if (snapshot && !(await this.#compare(ref, before, snapshot))) return;
    }
    done();
    for (const unreached of this.#unreached.splice(0)) unreached();
  }

  /**
   * @param before - the record's snapshot in the store before the platform was read
   * @returns `false` if the pass stopped before it could add an event for a change
   */
  async #compare(ref: string, before: RecordSnapshot | undefined, now: TrackedSnapshot): Promise<boolean> {
    const { store, stop, changes: events, observe } = this.#options;
    const { status } = now.snapshot;
    this.#check(ref, status);
    const known = await store.snapshotOf(ref);
    // If an event of the record was handled during the read, the read may be out of date.
    if (known?.sequence !== before?.sequence) return true;
    const { changed, changes } = compare(known?.snapshot, now);
    if (!changed) {
      if (known) await this.#keepFromAge(known);
      return true;
    }
    const isMissed = !(await this.#waits(ref));
    const eventId = await events.add(ref, known, now.snapshot, stop.signal);
    if (eventId === undefined) return stop.reason === undefined;
    this.changed += 1;
    observe({ kind: "changed", ref, eventId, previousStatus: known?.snapshot.status, status, changes });
    if (!isMissed) return true;
    this.#alarm({ kind: "missed", ref, changes });
    if (parseRef(ref)?.kind === "booking" && (await store.lastReceivedAt()) === undefined)
      this.#options.log.limited(
        "nothing-received",
        "warn",
        `${ref} has changed, but no notification has ever arrived. To find out why, run: npx stayhook doctor`,
        { ref },
      );
    return true;
  }

  /** Whether an event of the record waits or is being handled. */
  async #waits(ref: string): Promise<boolean> {
    for (const state of WAITING)
      if ((await this.#options.store.list({ ref, state, limit: 1 })).length > 0) return true;
    return false;
  }

  /** Renews a snapshot before the store deletes it. Without a snapshot, the record would count as new. */
  async #keepFromAge({ ref, snapshot, seenAt }: RecordSnapshot): Promise<void> {
    const { store, internals } = this.#options;
    if (Date.now() - seenAt.getTime() > internals.snapshotRetention / 2) await store.learn(ref, snapshot);
  }

  /** @returns `undefined` if the user's `track` threw */
  #snapshotOf(
    ref: string,
    kind: "booking" | "listing",
    record: Booking | Listing,
  ): TrackedSnapshot | undefined {
    const { account, internals } = this.#options;
    try {
      return internals.snapshotOf(kind, record, account);
    } catch (error) {
      this.#fail(ref, error);
      return undefined;
    }
  }

  #check(ref: string, status: string): void {
    this.checked += 1;
    this.#options.observe({ kind: "checked", ref, status });
  }

  #fail(ref: string, error: unknown, count = 1): void {
    this.failed += count;
    this.#options.observe({ kind: "failed", ref, error });
  }

  #alarm(event: ReconcilerAlarm): void {
    const { account, observe, internals } = this.#options;
    observe(event);
    internals.observe(account === undefined ? event : { ...event, account });
  }
}

/** Returns the valid rows of a list that also has invalid rows. */
function validRows(error: unknown): readonly Listing[] {
  return error instanceof ResponseValidationError ? (error.valid as readonly Listing[]) : [];
}

const finalStatuses = new Set<string>(
  bookingTable.filter((status: Status) => status.final).map(({ name }) => name),
);

/** Returns `false` if the status is final, or if the stay ended more than a week ago. An unreadable check-out gives `true`. */
function canChange({ snapshot: { status, fields } }: RecordSnapshot): boolean {
  if (finalStatuses.has(status)) return false;
  try {
    // `stay` needs a check-in. Any day before the check-out works.
    const { checkOut } = stay({ checkIn: "0001-01-01", checkOut: fields.checkOut });
    return Date.parse(checkOut) + DAY + AFTERWARDS > Date.now();
  } catch {
    return true;
  }
}

/** The position up to which a pass has checked all records. Checks run concurrently and end in any order. */
class Checkpoint {
  readonly #begun: { readonly ref: string; done: boolean }[] = [];
  /** All records up to this `ref` are done. It is `null` before the first record. */
  after: string | null;

  constructor(after: string | null) {
    this.after = after;
  }

  /** @returns a function to call when the record is done. Until then, the checkpoint stays before the record */
  begin(ref: string): () => void {
    const step = { ref, done: false };
    this.#begun.push(step);
    return () => {
      step.done = true;
      while (this.#begun[0]?.done) this.after = this.#begun.shift()!.ref;
    };
  }
}

/**
 * Compares the platform's webhook configuration with the expected one.
 *
 * @param config - `undefined` if the platform has no configuration
 * @returns `undefined` if the configuration is active and each expected topic has its URL
 */
function driftOf(config: WebhookConfig | undefined, expected: ExpectedUrls): DriftObservation | undefined {
  const isActive = config?.isActive ?? false;
  const urls: Readonly<Record<string, unknown>> = { ...config?.endpoints };
  const topics = Object.keys(expected).filter(
    (topic) => normalized(urls[topic]) !== normalized(expected[topic] ?? undefined),
  );
  return isActive && topics.length === 0 ? undefined : { kind: "drift", isActive, topics };
}

function normalized(url: unknown): unknown {
  return typeof url === "string" && URL.canParse(url) ? new URL(url).href : (url ?? undefined);
}
