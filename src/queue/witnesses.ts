// Finds records that were read before, whose reads show whether the platform is up.

import { pause, withTimeout } from "../async.ts";
import type { EventStore } from "../stores/event-store.ts";
import { answerOf } from "./store-call.ts";
import { type Kind, kindOf, type Outage, type ReadWitness } from "./work.ts";

// A witness is a record whose read shows whether the platform answers. The order of choice:
//
// 1. records that this process has read with success, the last one first,
// 2. waiting records that have a snapshot, because they were read at some time,
// 3. the newest waiting records that were never tried, then those that were.
//
// Records whose own failure is in question come last, and never decide that an outage begins.

/** How many witnesses are asked before they count as silent. */
const ASKED = 3;
/** How many records with an answer are remembered for each kind. */
const KNOWN = 8;
/** How many waiting events of each state are looked at. */
const LOOKED = 50;
/** How many waiting records are looked up in the snapshots. */
const SNAPSHOTS = 20;
/** How long a witness may take to answer, ms. */
const PATIENCE = 10_000;
/** The time between two witnesses in a pause, ms. */
const APART = 1000;

/** What witnesses say. `none`: there is no witness. */
export type Testimony =
  | "answered"
  | "none"
  | { readonly outage: Outage; readonly error: unknown; readonly ref: string };

type Store = Pick<EventStore<never>, "list" | "snapshotOf">;

/** Knows which records can tell whether the platform answers, and reads them. */
export class Witnesses {
  readonly #store: Store;
  readonly #read: ReadWitness;
  readonly #known: Record<Kind, string[]> = { bookings: [], listings: [] };
  readonly #closing = new AbortController();

  constructor(store: Store, read: ReadWitness) {
    this.#store = store;
    this.#read = read;
  }

  /** Notes that a record was answered. */
  note(kind: Kind, ref: string): void {
    const known = this.#known[kind];
    if (known[0] === ref || !isRef(ref)) return;
    this.#known[kind] = [ref, ...known.filter((other) => other !== ref)].slice(0, KNOWN);
  }

  /**
   * Reads witnesses, at most one a second, until one gets an answer.
   *
   * @param failing - the records in question
   * @param onlyOthers - whether the records in question are no witnesses
   */
  async ask(
    kind: Kind | undefined,
    failing: ReadonlySet<string>,
    isNeeded: () => boolean,
    onlyOthers = false,
  ): Promise<Testimony> {
    const found = await this.#refs(kind, failing);
    const refs = found.filter((ref) => !onlyOthers || !failing.has(ref)).slice(0, ASKED);
    let last: Testimony = "none";
    for (const [n, ref] of refs.entries()) {
      if (n > 0) await pause(APART, this.#closing.signal);
      if (!isNeeded()) break;
      last = await this.#ask(ref);
      // A rate limit or a refused token holds for the other witnesses, too.
      if (last === "answered" || isAboutAll(last)) break;
    }
    return last;
  }

  close(): void {
    this.#closing.abort();
  }

  async #ask(ref: string): Promise<Testimony> {
    const late = new AbortController();
    const abort = (): void => late.abort();
    const { signal } = this.#closing;
    signal.addEventListener("abort", abort);
    if (signal.aborted) abort();
    const read = (async () => ({ failure: await this.#read(ref, late.signal) }))();
    const said = await withTimeout(
      PATIENCE,
      read.catch((error: unknown) => ({ failure: { outage: { everything: false }, error } })),
    );
    abort();
    signal.removeEventListener("abort", abort);
    if (said !== undefined && said.failure === undefined) return "answered";
    if (said?.failure === "none") return "none";
    // Ask another one first the next time: this record may be at fault.
    for (const kind of ["bookings", "listings"] as const) {
      const known = this.#known[kind];
      if (known.includes(ref)) this.#known[kind] = [...known.filter((other) => other !== ref), ref];
    }
    const { outage, error } = said?.failure ?? {
      outage: { everything: false },
      error: new Error(`${ref}: the platform did not answer within ${PATIENCE} ms`),
    };
    return { outage, error, ref };
  }

  async #refs(kind: Kind | undefined, failing: ReadonlySet<string>): Promise<string[]> {
    const known = kind === undefined ? Object.values(this.#known).flat() : this.#known[kind];
    const best = known.filter((ref) => !failing.has(ref));
    // A store that fails has no witnesses. The queue finds out by itself that the store fails.
    const waiting =
      best.length >= ASKED ? [] : await answerOf("list", () => this.#waiting(kind)).catch(() => []);
    const refs = [...new Set([...best, ...waiting, ...known])];
    return [...refs.filter((ref) => !failing.has(ref)), ...refs.filter((ref) => failing.has(ref))];
  }

  async #waiting(kind: Kind | undefined): Promise<string[]> {
    const lists = await Promise.all(
      (["pending", "retrying"] as const).map((state) => this.#store.list({ state, limit: LOOKED })),
    );
    const refs = lists.flat().flatMap(({ ref }) => (ref !== null && isRef(ref) ? [ref] : []));
    const ofKind = [...new Set(refs)].filter((ref) => kind === undefined || kindOf(ref) === kind);
    const snapshots = await Promise.all(ofKind.slice(0, SNAPSHOTS).map((ref) => this.#store.snapshotOf(ref)));
    const isKnown = (_: string, n: number) => snapshots[n] !== undefined;
    return [...ofKind.filter(isKnown), ...ofKind.filter((ref, n) => !isKnown(ref, n))];
  }
}

function isRef(name: string): boolean {
  return name.includes(":");
}

function isAboutAll(testimony: Testimony): boolean {
  if (typeof testimony === "string") return false;
  return testimony.outage.everything || testimony.outage.retryAfter !== undefined;
}
