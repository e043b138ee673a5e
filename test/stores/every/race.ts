import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { EventStore, FurtherEvent, Outcome } from "../../../src/stores/event-store.ts";
import type { ClaimedEvent } from "../../../src/stores/stored-event.ts";
import { type Random, randomOf } from "../../system/random.ts";
import { eventOf } from "../event.ts";

/** Longer than {@link PATIENCE}: a lease that nobody holds leaves events waiting. */
const HELD = 180_000;
/** The lease of a worker that dies, ms. */
const DYING = 100;
/** The maximum time for a round after its last event was added, ms. */
const PATIENCE = 60_000;

/**
 * Adds, claims, retries and ends events at random on several handles of one database. Checks that each event is done
 * once, that no record has two attempts at once, that nothing that is due is left waiting, and that nothing that is done
 * is due. Runs in rounds, because an event of a later round could hide that an earlier one was forgotten.
 */
export async function race(handles: readonly EventStore<unknown>[], events: number, seed: number) {
  const random = randomOf(seed);
  let total = 0;
  for (let round = 0; total < events; round++) {
    const count = Math.min(events - total, 50 + random.below(200));
    total += await new Round(handles, random, round).run(
      count,
      3 + random.below(random.chance(0.3) ? 497 : 20),
    );
  }
  const [store] = handles;
  const counts = { scheduled: 0, pending: 0, processing: 0, retrying: 0, done: total, parked: 0 };
  expect(await store!.counts()).toEqual(counts);
  return total;
}

class Round {
  readonly #handles: readonly EventStore<unknown>[];
  readonly #random: Random;
  readonly #round: number;
  /** The record of each event that was added, as the race knows it. */
  readonly #records = new Map<string, string>();
  readonly #done = new Set<string>();
  /** Until when an attempt of a record may run, by record. */
  readonly #running = new Map<string, number>();
  #isAdding = true;
  #isOver = false;
  #made = 0;

  constructor(handles: readonly EventStore<unknown>[], random: Random, round: number) {
    this.#handles = handles;
    this.#random = random;
    this.#round = round;
  }

  /** @returns how many events the round had, with those that attempts recorded */
  async run(count: number, records: number): Promise<number> {
    const workers = this.#handles.flatMap((store) => [
      this.#work(store, records),
      this.#work(store, records),
    ]);
    const adders = this.#handles.map((store, index) =>
      this.#add(store, Math.ceil((count - index) / this.#handles.length), records),
    );
    const added = Promise.all(adders).then(() => {
      this.#isAdding = false;
    });
    await Promise.all([added, ...workers]).finally(() => {
      this.#isOver = true;
    });
    expect([...this.#done].sort()).toEqual([...this.#records.keys()].sort());
    for (const store of this.#handles) {
      expect(await store.claim({ limit: 1000, leaseDuration: HELD })).toEqual([]);
      expect(await store.nextDue()).toBeUndefined();
    }
    return this.#records.size;
  }

  async #add(store: EventStore<unknown>, count: number, records: number): Promise<void> {
    for (let left = count; left > 0; ) {
      const burst = Math.min(left, 1 + this.#random.below(10));
      left -= burst;
      const answers = await Promise.all(
        Array.from({ length: burst }, () => {
          const { event, ...options } = this.#newEvent(records);
          return store.add(event, options);
        }),
      );
      expect(answers).toEqual(answers.map(() => "added"));
      if (this.#random.chance(0.3)) await sleep(this.#random.below(5));
    }
  }

  #newEvent(records: number): FurtherEvent {
    const record = this.#random.below(records);
    const ref = this.#random.chance(0.1) ? null : `booking:${this.#round}-${record}`;
    const event = eventOf(ref, `race:${this.#round}:${this.#made++}`);
    this.#records.set(event.eventId, ref ?? event.eventId);
    return { event, ...(this.#random.chance(0.2) && { dueIn: this.#random.below(40) }) };
  }

  async #work(store: EventStore<unknown>, records: number): Promise<void> {
    let end = Number.POSITIVE_INFINITY;
    while (!this.#isOver && (this.#isAdding || this.#done.size < this.#records.size)) {
      if (this.#isAdding) end = performance.now() + PATIENCE;
      if (performance.now() > end) throw new Error(`events were left waiting: ${await this.#left(store)}`);
      const dies = this.#random.chance(0.03);
      const leaseDuration = dies ? DYING : HELD;
      const sentAt = performance.now();
      const claims = await store.claim({
        ...{ limit: 1 + this.#random.below(20), leaseDuration },
      });
      for (const claim of claims) this.#begin(claim, sentAt + leaseDuration - 10);
      if (claims.length === 0) await sleep(Math.min(20, (await store.nextDue()) ?? 20));
      if (dies) continue;
      await Promise.all(claims.map((claim) => this.#attempt(store, claim, records)));
    }
  }

  #begin({ eventId }: ClaimedEvent, until: number): void {
    // The answer came after the end of a short lease, so another worker may have handled the event since.
    if (performance.now() >= until) return;
    const key = this.#records.get(eventId)!;
    const other = this.#running.get(key);
    if (other !== undefined && performance.now() < other) throw new Error(`two attempts of ${key} at once`);
    if (this.#done.has(eventId)) throw new Error(`${eventId} was claimed again after it was done`);
    this.#running.set(key, until);
  }

  async #attempt(store: EventStore<unknown>, claim: ClaimedEvent, records: number): Promise<void> {
    await sleep(this.#random.below(3));
    if (this.#random.chance(0.1)) expect(await store.renew([claim], HELD)).toEqual([claim]);
    const outcome = this.#outcome(records);
    this.#running.delete(this.#records.get(claim.eventId)!);
    if (outcome.state === "done") this.#done.add(claim.eventId);
    const calls = this.#random.chance(0.05) ? 2 : 1;
    // Of two calls, the later one may see that another handle has claimed the record since.
    const held = await Promise.all(Array.from({ length: calls }, () => store.settle(claim, outcome)));
    expect(held, `settle() of ${claim.eventId} as ${outcome.state}`).toContain(true);
    // Without the state, a repeated call would replay an event that another handle has done meanwhile.
    if (outcome.state === "parked")
      expect(await store.replay({ eventId: claim.eventId, state: "parked" })).toBe(1);
  }

  #outcome(records: number): Outcome<unknown> {
    const entry = { duration: 1 };
    const dice = this.#random.below(100);
    if (dice < 10)
      return {
        state: "retrying",
        in: this.#random.below(30),
        count: this.#random.pick(["call", "failure", "refusal"]),
        reason: "callback",
        entry,
      };
    if (dice < 14)
      return {
        state: "retrying",
        in: this.#random.below(30),
        count: "nothing",
        holdsRecord: true,
        reason: "unavailable",
        entry,
      };
    if (dice < 17) return { state: "released" };
    if (dice < 19) return { state: "parked", reason: "callback", entry };
    const record = { snapshot: { status: "Confirmed", fields: { dice } }, changed: true };
    const events = dice < 25 ? [this.#newEvent(records)] : [];
    return { state: "done", type: "booking.Confirmed", entry, events, ...(dice < 60 && { record }) };
  }

  async #left(store: EventStore<unknown>): Promise<string> {
    const left = [...this.#records.keys()].filter((id) => !this.#done.has(id)).slice(0, 5);
    const events = await Promise.all(left.map((id) => store.get(id)));
    return JSON.stringify({ nextDue: await store.nextDue(), events });
  }
}
