// Finds records that were read before, whose reads show whether the platform is up.

import { pause, withTimeout } from "../async.ts";
import type { EventStore } from "../stores/event-store.ts";
import { answerOf } from "./store-call.ts";
import { type Lane, laneKey, type Outage, type QueueOptions, type ReadWitness } from "./work.ts";

// A witness is a record whose read shows whether the platform answers. The order of choice:
//
// 1. records that this process has read with success, the last one first,
// 2. waiting records that have a snapshot, because they were read at some time,
// 3. the newest waiting records that were never tried, then those that were.
//
// Records whose own failure is in question come last, and never decide that an outage begins.

/** How many witnesses are asked before they count as silent. */
const ASKED = 3;
/** How many records with an answer are remembered for each lane. */
const KNOWN = 8;
/** For how many lanes such records are remembered. */
const LANES = 1000;
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

interface Question {
  readonly failing: ReadonlySet<string>;
  /** Whether the records in question are no witnesses. */
  readonly onlyOthers?: boolean;
  /** The accounts whose records are asked last, or not at all with `onlyOthers`. */
  readonly avoided?: ReadonlySet<string> | undefined;
  /** Whether an answer still matters. */
  readonly isNeeded: () => boolean;
}

/** Knows which records can tell whether the platform answers, and reads them. */
export class Witnesses {
  readonly #store: Store;
  readonly #laneOf: QueueOptions<never>["laneOf"];
  readonly #read: ReadWitness;
  /** The records with an answer of each lane, the last one first. The lane with the last answer is the last one. */
  readonly #known = new Map<string, { readonly lane: Lane; readonly refs: readonly string[] }>();
  readonly #closing = new AbortController();

  constructor(store: Store, laneOf: QueueOptions<never>["laneOf"], read: ReadWitness) {
    this.#store = store;
    this.#laneOf = laneOf;
    this.#read = read;
  }

  /** Notes that a record was answered. */
  note(lane: Lane, ref: string): void {
    if (!isRef(ref)) return;
    const key = laneKey(lane);
    const known = this.#known.get(key);
    const refs =
      known?.refs[0] === ref
        ? known.refs
        : [ref, ...(known?.refs ?? []).filter((other) => other !== ref)].slice(0, KNOWN);
    this.#known.delete(key);
    this.#known.set(key, { lane, refs });
    if (this.#known.size <= LANES) return;
    for (const oldest of this.#known.keys()) {
      this.#known.delete(oldest);
      return;
    }
  }

  /**
   * Reads witnesses, at most one a second, until one gets an answer.
   *
   * @param lane - the lane or account in question. `undefined` stands for everything
   */
  async ask(lane: Lane | undefined, question: Question): Promise<Testimony> {
    const refs = (await this.#refs(lane, question)).slice(0, ASKED);
    let last: Testimony = "none";
    for (const [n, ref] of refs.entries()) {
      if (n > 0) await pause(APART, this.#closing.signal);
      if (!question.isNeeded()) break;
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
    for (const [key, { lane, refs }] of this.#known)
      if (refs.includes(ref))
        this.#known.set(key, { lane, refs: [...refs.filter((other) => other !== ref), ref] });
    const { outage, error } = said?.failure ?? {
      outage: { everything: false },
      error: new Error(`${ref}: the platform did not answer within ${PATIENCE} ms`),
    };
    return { outage, error, ref };
  }

  async #refs(scope: Lane | undefined, { failing, onlyOthers, avoided }: Question): Promise<string[]> {
    const isGood = (ref: string): boolean => !failing.has(ref) && !this.#isOf(avoided, ref);
    const lanes = [...this.#known.values()].filter(({ lane }) => isWithin(lane, scope));
    const known = lanes.reverse().flatMap(({ refs }) => refs);
    const best = known.filter(isGood);
    // A store that fails has no witnesses. The queue finds out by itself that the store fails.
    const waiting =
      best.length >= ASKED ? [] : await answerOf("list", () => this.#waiting(scope)).catch(() => []);
    const refs = [...new Set([...best, ...waiting, ...known])];
    const good = refs.filter(isGood);
    return onlyOthers ? good : [...good, ...refs.filter((ref) => !isGood(ref))];
  }

  #isOf(accounts: ReadonlySet<string> | undefined, ref: string): boolean {
    const { account } = this.#laneOf({ ref, eventId: "" });
    return account !== undefined && accounts?.has(account) === true;
  }

  async #waiting(scope: Lane | undefined): Promise<string[]> {
    const whose = scope?.account === undefined ? {} : { account: scope.account };
    const lists = await Promise.all(
      (["pending", "retrying"] as const).map((state) => this.#store.list({ ...whose, state, limit: LOOKED })),
    );
    const events = lists.flat().filter((event) => isWithin(this.#laneOf(event), scope));
    const refs = new Set(events.flatMap(({ ref }) => (ref !== null && isRef(ref) ? [ref] : [])));
    const all = [...refs];
    const snapshots = await Promise.all(all.slice(0, SNAPSHOTS).map((ref) => this.#store.snapshotOf(ref)));
    const isKnown = (_: string, n: number) => snapshots[n] !== undefined;
    return [...all.filter(isKnown), ...all.filter((ref, n) => !isKnown(ref, n))];
  }
}

/** Whether a lane belongs to a lane or account. */
function isWithin(lane: Lane, scope: Lane | undefined): boolean {
  if (scope === undefined) return true;
  return lane.account === scope.account && (scope.kind === undefined || lane.kind === scope.kind);
}

function isRef(name: string): boolean {
  return name.includes(":");
}

/** Whether a failure is about the whole account. */
export function isAboutAll(testimony: Testimony): boolean {
  if (typeof testimony === "string") return false;
  return testimony.outage.everything || testimony.outage.retryAfter !== undefined;
}
