// Plans what should exist for a booking, and says which call an event of a thing makes. It records nothing itself: what it
// returns goes into the outcome of the attempt.

import { inAccount, splitKey } from "../account.ts";
import { now as clockNow } from "../clock.ts";
import { InvalidArgumentError } from "../errors.ts";
import type { Log } from "../logger.ts";
import type { BookingStay } from "../models/booking-stay.ts";
import type { FurtherEvent } from "../stores/event-store.ts";
import type { ClaimedEvent, StoredEvent } from "../stores/stored-event.ts";
import type { AnyOptions } from "./declared.ts";
import {
  type Act,
  EMPTY,
  type Entry,
  type HoldEntry,
  type HoldWant,
  isEmpty,
  type Json,
  type Ledger,
  type Row,
  readLedger,
  stayOfEntry,
  type Wanted,
  wantedIn,
} from "./ledger.ts";
import type { LedgerChanges, Planned, Reading, Step, ThingCall } from "./plans.ts";
import {
  type AfterCall,
  afterCall,
  DAY,
  dueBefore,
  duringCall,
  isOver,
  nextLookAt,
  nextOf,
  plan,
  replaced,
  rowsInDoubt,
  rowsToLookAt,
  swept,
  toArm,
  withoutRows,
} from "./rules.ts";
import {
  factsOf,
  isUntried,
  laterAgain,
  leftAlone,
  originOf,
  type ThingOrigin,
  thingEvent,
  triedAgain,
  waitedOf,
} from "./thing-events.ts";
import { keptJson, wishesOf } from "./wishes.ts";

export interface EngineOptions {
  readonly declared: AnyOptions;
  readonly get: (eventId: string) => Promise<StoredEvent | undefined>;
  /** Makes the id of an event from a name that nothing else has. */
  readonly rowId: (ref: string, name: string) => string;
  readonly log: Log;
}

export class StaysEngine {
  readonly #options: EngineOptions;
  readonly #told = new Set<string>();

  constructor(options: EngineOptions) {
    this.#options = options;
  }

  /**
   * Makes the plan of a booking anew.
   *
   * @throws the error of the store
   */
  async plan(reading: Reading): Promise<Planned> {
    const { claim, from } = reading;
    const known = readLedger(claim.ledger);
    const before = known ?? EMPTY;
    const now = Math.max(clockNow(), claim.claimedAt, before.at);
    // This attempt has recorded its plan, and was claimed again. A `want` that is not pure must not keep it from its call.
    if (known?.by === attemptOf(reading)) {
      const ledger = { ...known, by: undefined };
      return { ledger, now, isNew: false, changes: { ledger: textOf(ledger) } };
    }
    const { wanted, problem } = isPlanned(reading, known) ? { wanted: wantedIn(known!) } : this.#ask(reading);
    const keeps = (entry: Entry) =>
      !this.#knows(entry.name) ||
      (problem !== undefined && [undefined, stayOfEntry(entry).listingId].includes(problem.listingId));
    const handledAt = known ? undefined : from?.listingId;
    const input = { ledger: known, to: reading.to, wanted, keeps, handledAt, now, newId };
    const bare = plan(input);
    const looksAtDue = claim.source !== "thing";
    const rows = await this.#rows(claim, rowsInDoubt(before, bare, now, looksAtDue));
    const after = rows.size === 0 ? bare : plan({ ...input, facts: factsOf(rows) });
    const { ledger, events, remove } = this.#recorded(claim, before, after, now, problem !== undefined);
    const again = [...rows.values()].filter(
      (row) => row && isTriedAgain(row, claim, ledger),
    ) as StoredEvent[];
    const isNew = again.length > 0 || isOther(before, ledger);
    const all = [...again.map((row) => triedAgain(row, waitedOf(claim))), ...events];
    return {
      ledger,
      now,
      isNew,
      changes: isNew ? { ledger: textOf(ledger), events: all, remove } : {},
      problem,
    };
  }

  /** Returns the changes of a plan that is recorded before a call. The same attempt then finds its plan made. */
  static first(reading: Reading, { ledger, changes }: Planned): LedgerChanges {
    return { ...changes, ledger: JSON.stringify({ ...ledger, by: attemptOf(reading) }) };
  }

  /**
   * Says what an event of a thing does by a plan. Of what is due, ends act first, then begins, whatever became due first: those
   * that nobody has tried yet are put before this event.
   *
   * @throws the error of the store
   */
  async next(reading: Reading, planned: Planned): Promise<Step> {
    const { claim } = reading;
    const { ledger, now } = planned;
    const step = this.#next(reading, planned);
    if (!step.call || planned.isNew) return step;
    const ids = dueBefore(ledger, step.entry, now).flatMap(({ name, row }) =>
      row && this.#knows(name) ? [row.eventId] : [],
    );
    const rows = await this.#rows(claim, ids);
    const untried = new Set(ids.filter((id) => isUntried(rows.get(id))));
    if (untried.size === 0) return step;
    const { ledger: put, ...changes } = this.#recorded(claim, ledger, withoutRows(ledger, untried), now);
    return { isLater: true, changes: { ...changes, ledger: textOf(put) } };
  }

  #next(reading: Reading, { ledger, now }: Planned): Step {
    const { claim } = reading;
    const { name } = originOf(claim);
    if (name !== undefined && !this.#knows(name)) return { changes: this.#leftAlone(claim, now) };
    const entry = ledger.entries.find(({ row }) => row?.eventId === bareId(claim));
    const next = entry && nextOf(entry, now);
    if (!entry || !next) return { changes: {} };
    // Somebody has replayed it before its time.
    if (next.at > now) return { changes: { events: [laterAgain(claim, next.at)] } };
    const ended = ({ entries, done }: AfterCall): LedgerChanges => {
      const after = {
        ...ledger,
        at: now,
        entries: replaced(ledger, entry, entries),
        done: { ...ledger.done, ...done },
      };
      const { ledger: next, events, remove } = this.#recorded(claim, ledger, after, now);
      return { ledger: textOf(next), events, remove };
    };
    if (entry.kind === "once" && isOver(entry.want, now)) return { changes: ended({ entries: [] }) };
    const { act } = next;
    const during = { ...ledger, at: now, entries: replaced(ledger, entry, [duringCall(entry, act)]) };
    const call: ThingCall = {
      act,
      entry,
      ...this.#callOf(reading, ledger, entry, act),
      during: textOf(during),
      after: (returned) =>
        ended(afterCall(entry, act, { now, value: keptValueOf(act, entry.name, returned), newId })),
    };
    return call;
  }

  /** Says what an event does whose booking cannot be read: an `end` that is due must not wait for ever. */
  withoutRead(claim: ClaimedEvent, account: string | undefined): ThingCall | undefined {
    const ledger = readLedger(claim.ledger);
    const row = ledger?.entries.find(({ row: own }) => own?.eventId === bareId(claim));
    if (!ledger || !row) return undefined;
    const now = Math.max(clockNow(), claim.claimedAt, ledger.at);
    const unread = { booking: undefined, from: undefined, to: undefined, timeZone: undefined };
    const reading = { claim, account, ...unread };
    const step = this.#next(reading, { ledger, now, isNew: false, changes: {} });
    return step.call && step.act === "end" ? step : undefined;
  }

  /**
   * Returns what forgets a booking 30 days after its last check-out, and what ends a hold that may exist although its
   * `begin` never succeeded. It needs no read.
   */
  async forgotten(claim: ClaimedEvent): Promise<LedgerChanges> {
    const before = readLedger(claim.ledger) ?? EMPTY;
    const now = Math.max(clockNow(), claim.claimedAt, before.at);
    const facts = factsOf(await this.#rows(claim, rowsToLookAt(before, now)));
    const after = swept(before, facts, now);
    const { ledger, ...changes } = this.#recorded(claim, { ...before, problem: after.problem }, after, now);
    return { ledger: textOf(ledger), ...changes };
  }

  #knows(name: string): boolean {
    return Object.hasOwn(this.#options.declared.apply, name);
  }

  #ask({ claim, to, booking, timeZone, account, problem }: Reading) {
    if (problem || !to || !booking) return { wanted: [], problem };
    try {
      const wanted = wishesOf(this.#options.declared, to, { booking, timeZone, account });
      return { wanted: wanted.filter((each) => this.#canBegin(each, claim.ref)) };
    } catch (error) {
      return { wanted: [], problem: { error, listingId: to.listingId } };
    }
  }

  #canBegin({ kind, name, want }: Wanted, ref: string | null): boolean {
    if (kind === "once" || want.from === undefined || want.from < want.until) return true;
    this.#tellOnce(ref, `the hold ${name} never begins, because its \`until\` is not after its \`from\``);
    return false;
  }

  #tellOnce(ref: string | null, message: string): void {
    if (this.#told.has(message)) return;
    this.#told.add(message);
    this.#options.log.warn(message, { ref });
  }

  /** Lets the event of a name that `apply` lacks wait: a newer version of the app may know it, or an older one did. */
  #leftAlone(claim: ClaimedEvent, now: number): LedgerChanges {
    const name = originOf(claim).name!;
    this.#tellOnce(
      claim.ref,
      `\`apply\` has no ${name}, but the ledgers of bookings have. They stay as they are. If an older version of the app runs, deploy the newer one. If ${name} is no longer needed, keep it in \`apply\` until what it has begun has ended`,
    );
    return { events: [leftAlone(claim, now)] };
  }

  /** Reads the events with these ids, which have no account. */
  async #rows(claim: ClaimedEvent, ids: readonly string[]): Promise<Map<string, StoredEvent | undefined>> {
    const { get } = this.#options;
    const { account } = splitKey(claim.ref!);
    return new Map(
      await Promise.all(ids.map(async (id) => [id, await get(inAccount(account, id))] as const)),
    );
  }

  /** Gives the things of a ledger the events that they need, and deletes those that they need no more. */
  #recorded(
    claim: ClaimedEvent,
    before: Ledger,
    after: Ledger,
    now: number,
    hasProblem = Boolean(before.problem),
  ) {
    const events: FurtherEvent[] = [];
    const { account } = splitKey(claim.ref!);
    const add = (name: string, origin: ThingOrigin, dueAt: number, act?: Act) => {
      const eventId = this.#options.rowId(claim.ref!, `${name}:${random()}`);
      events.push(thingEvent(claim, eventId, origin, { dueAt, now, waited: act && waitedOf(claim) }));
      return bareId({ eventId });
    };
    const rows = new Map<Entry, Row>();
    for (const { entry, act, ...next } of toArm(after, now)) {
      const { listingId } = stayOfEntry(entry);
      const at = next.at > now ? next.at : now;
      rows.set(entry, {
        eventId: add(`${entry.name}:${listingId}`, { name: entry.name, listingId }, at, act),
        at,
        act,
      });
    }
    const entries = after.entries.map((entry) =>
      rows.has(entry) ? { ...entry, row: rows.get(entry) } : entry,
    );
    let { problem } = before;
    if (hasProblem) problem ??= add("plan", {}, now);
    else if (problem !== undefined) {
      // It now succeeds.
      if (problem !== bareId(claim))
        events.push({
          ...thingEvent(claim, inAccount(account, problem), {}, { dueAt: now, now }),
          replace: "moved",
        });
      problem = undefined;
    }
    const planned = { ...after, entries, problem };
    const look = this.#look(claim, before.sweep, planned, now);
    const ledger = { ...planned, sweep: look?.sweep };
    const kept = new Set([...entries.map(({ row }) => row?.eventId), ledger.sweep?.eventId]);
    const remove = [...before.entries.map(({ row }) => row?.eventId), before.sweep?.eventId].flatMap((id) =>
      id === undefined || id === bareId(claim) || kept.has(id) ? [] : [inAccount(account, id)],
    );
    return { ledger, events: [...events, ...(look?.events ?? [])], remove };
  }

  /** Sets the event that looks at a booking without a read. What is over but not ended is looked at once a day. */
  #look(claim: ClaimedEvent, sweep: Ledger["sweep"], ledger: Ledger, now: number) {
    if (isEmpty(ledger)) return undefined;
    const isOwn = sweep?.eventId === bareId(claim);
    const next = nextLookAt(ledger);
    const at = next > now ? next : sweep && !isOwn ? sweep.at : now + DAY;
    if (sweep && sweep.at === at && !isOwn) return { sweep, events: [] };
    const eventId = sweep
      ? inAccount(splitKey(claim.ref!).account, sweep.eventId)
      : this.#options.rowId(claim.ref!, `forget:${random()}`);
    const event = thingEvent(claim, eventId, { forgets: true }, { dueAt: at, now });
    const replace = isOwn ? "ended" : "moved";
    return { sweep: { eventId: bareId({ eventId }), at }, events: [{ ...event, replace } as const] };
  }

  /** Returns the call of a thing, and the fields that it gets. */
  #callOf({ claim, booking, account }: Reading, ledger: Ledger, entry: Entry, act: Act) {
    const thing = this.#options.declared.apply[entry.name]!;
    const want = (entry.kind === "hold" && act === "end" ? entry.was : entry.want)!;
    const { stay, data } = want;
    const fields = {
      name: entry.name,
      stay,
      booking,
      account,
      id: entry.id,
      data,
      values: valuesAt(ledger, stay),
    };
    if (entry.kind === "once") {
      const { at, until } = entry.want;
      const isEarly = entry.isEarly === true;
      const own = { ...fields, at: new Date(at), until: dateOf(until), isEarly, attempt: claim.attempts };
      return { call: thing as (given: object) => unknown, fields: own };
    }
    const { from, until } = want as HoldWant;
    const { begin, end } = thing as Record<"begin" | "end", (given: object) => unknown>;
    const own = { ...fields, from: dateOf(from), until: new Date(until), value: entry.value };
    // A method may use the `this` of its object.
    return { call: (act === "end" ? end : begin).bind(thing), fields: own };
  }
}

/**
 * Whether the ledger has what the stay needs by the same read, so that an event of a thing does not ask for it again: a `want`
 * whose `data` are never the same would let its holds begin each other for ever.
 */
function isPlanned({ claim, readFor = Infinity, problem }: Reading, known: Ledger | undefined): boolean {
  const isThing = claim.source === "thing" && originOf(claim).name !== undefined;
  return isThing && known !== undefined && known.at >= readFor && !problem && !known.problem;
}

function dateOf(ms: number | undefined): Date | undefined {
  return ms === undefined ? undefined : new Date(ms);
}

/** The values of the holds that are on at the house of a stay. */
function valuesAt({ entries }: Ledger, { listingId }: BookingStay): Record<string, Json | undefined> {
  const on = entries.filter((entry) => entry.kind === "hold" && entry.since !== undefined);
  const here = on.filter((entry) => stayOfEntry(entry).listingId === listingId) as HoldEntry[];
  return Object.fromEntries(here.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])));
}

/** @throws InvalidArgumentError if `begin` returned what a ledger does not keep */
function keptValueOf(act: Act, name: string, returned: unknown): Json | undefined {
  if (act !== "begin" || returned === undefined) return undefined;
  return keptJson("value", returned, (message) => {
    throw new InvalidArgumentError({ path: ["apply", name, "begin"], message });
  });
}

/** The id of an event without its account: a ledger may be given to an account. */
function bareId({ eventId }: Pick<StoredEvent, "eventId">): string {
  return splitKey(eventId).rest;
}

/** Names an attempt and the stay that it planned. A released attempt does not count, so the next one has its name. */
function attemptOf({ claim: { eventId, attempts }, to }: Reading): string {
  return JSON.stringify([eventId, attempts, to && [to.listingId, to.checkIn, to.checkOut]]);
}

function textOf(ledger: Ledger): string {
  return isEmpty(ledger) ? "" : JSON.stringify(ledger);
}

function isOther(one: Ledger, other: Ledger): boolean {
  const said = ({ entries, done, problem, sweep }: Ledger) => JSON.stringify([entries, done, problem, sweep]);
  return said(one) !== said(other);
}

/** Whether a plan tries a parked event again that still has something to do: one that was parked before this event came. */
function isTriedAgain(event: StoredEvent, claim: ClaimedEvent, after: Ledger): boolean {
  const { state, history } = event;
  const id = bareId(event);
  const isNeeded = after.problem === id || after.entries.some(({ row }) => row?.eventId === id);
  return state === "parked" && isNeeded && (history.at(-1)?.at.getTime() ?? 0) < claim.receivedAt;
}

function newId(name: string, { bookingCode, listingId }: BookingStay): string {
  return `${name}:${bookingCode}:${listingId}:${random()}`;
}

/** Returns 80 random bits, so that no id ever comes again. */
function random(): string {
  return crypto.randomUUID().replaceAll("-", "").slice(12);
}
