// Two processes on one store, and a platform whose faults a test begins and ends.

import { createReconciler } from "stayhook/reconcile";
import type { EventStore } from "stayhook/store";
import { vi } from "vitest";
import { inAccount, splitKey } from "../../../src/account.ts";
import { memoryStore } from "../../../src/stores/memory/index.ts";
import type { StoredEvent } from "../../../src/stores/stored-event.ts";
import { advance, never } from "../../queue/support.ts";
import type { Random } from "../../system/random.ts";
import { type Answer, appOf, MINUTE, SECOND } from "./app.ts";

/** What a read is about. */
export interface Target {
  readonly account: string | undefined;
  readonly id: string;
}

/** Answers some reads in place of the platform. */
export type Rule = (target: Target) => Answer | undefined;

/** How a store treats a call. */
export type StoreFault = () => "works" | "fails" | "hangs" | "loses the answer";

/** How soon all is handled after the last fault, ms. */
const PROMPT = 61 * SECOND;
const LEASE = 30 * SECOND;
/** How long the queue waits for a store, and how long a lease lasts that a store gave without an answer, ms. */
const STORE_PATIENCE = 30 * SECOND + LEASE;

/** The records that were read before the first fault. */
const KNOWN = ["B0", "B1", "B2", "100", "101"];

type App = ReturnType<typeof appOf>;

interface Process {
  readonly app: App;
  isDead: boolean;
  isInDoubt: boolean;
  /** When it told a pause, on the monotonic clock. */
  pausedAt: number;
}

export class World {
  readonly random: Random;
  readonly accounts: readonly (string | undefined)[];
  readonly rules = new Set<Rule>();
  readonly callbacks = new Set<() => Promise<void> | void>();
  readonly tokens = new Set<(account: string | undefined) => boolean>();
  readonly storeFaults = new Set<StoreFault>();
  readonly store = memoryStore();
  /** When an account was erased. */
  readonly #erased = new Map<string | undefined, number>();
  readonly #gone: string[] = [];
  readonly #sent = new Map<string, Target & { readonly at: number }>();
  readonly #processes: Process[] = [];
  readonly #notifies: boolean;
  /** How far the system clock has jumped, ms. */
  ahead = 0;
  /** The end of the longest wait that the platform has asked for, on the monotonic clock. */
  askedUntil = 0;
  /** Until when a lease may hold that nobody renews, on the monotonic clock. */
  leasedUntil = 0;
  #bookings = 0;

  constructor(random: Random) {
    this.random = random;
    this.accounts = random.oneIn(2) ? [undefined] : ["a", "b", "c"];
    this.#notifies = random.oneIn(2);
    const clock = Date.now;
    vi.spyOn(Date, "now").mockImplementation(() => clock() + this.ahead);
    for (let n = 0; n < 2; n += 1) this.start();
  }

  now = () => performance.now();

  get #alive(): Process[] {
    return this.#processes.filter(({ isDead }) => !isDead);
  }

  /** Starts a process. */
  start(): void {
    const process: Process = {
      app: this.#appOf(() => process),
      isDead: false,
      isInDoubt: false,
      pausedAt: 0,
    };
    this.#processes.push(process);
  }

  #appOf(own: () => Process): App {
    const hasAccounts = this.accounts.length > 1;
    const { random } = this;
    const callback = async (event: { timers: { set(name: string, at: Date): void } }) => {
      for (const act of this.callbacks) await act();
      if (random.oneIn(8)) event.timers.set("later", new Date(Date.now() + random.below(2 * MINUTE)));
    };
    const gone = ({ ref }: { ref: string | null }) => void this.#gone.push(ref!);
    const on = {
      booking: callback,
      listing: callback,
      unknown: async () => {
        for (const act of this.callbacks) await act();
      },
      "booking.gone": gone,
      "listing.gone": gone,
      "booking.timer.later": () => {},
      "listing.timer.later": () => {},
    };
    const accessToken = ({ account }: { account: string | undefined }) => {
      if ([...this.tokens].some((fails) => fails(account))) throw new Error("no token");
      return `token-${account ?? ""}`;
    };
    return appOf((id, _, account) => (own().isDead ? "hangs" : this.#answer({ id, account })), {
      store: this.#storeOf(own),
      accessToken,
      ...(hasAccounts && { accountFrom: { query: "account" } }),
      on: on as never,
      backoff: (attempt) => Math.min(30, 4 * 2 ** attempt) * SECOND * (1 - Math.random() / 4),
      maxAttempts: 100,
      leaseDuration: LEASE,
      concurrency: 1 + random.below(10),
      observe: (event) => {
        if (event.kind === "paused") own().pausedAt = performance.now();
      },
    });
  }

  #answer(given: { readonly id: string; readonly account: string | undefined }): Answer {
    const target = { ...given, account: given.account || undefined };
    for (const rule of this.rules) {
      const answer = rule(target);
      if (answer === undefined) continue;
      if (typeof answer === "object")
        this.askedUntil = Math.max(this.askedUntil, this.now() + answer.retryAfter * SECOND);
      return answer;
    }
    return target.id.startsWith("FORGED") ? 404 : 200;
  }

  #storeOf(own: () => Process): EventStore {
    return new Proxy(this.store as EventStore, {
      get: (target, property: keyof EventStore) => {
        const value = target[property];
        if (property === "subscribe" && !this.#notifies) return undefined;
        if (typeof value !== "function") return value;
        const call = (value as (...args: unknown[]) => unknown).bind(target);
        if (property === "subscribe" || property === "snapshots") return call;
        return async (...args: unknown[]) => {
          if (own()?.isDead) return await never();
          const faults = [...this.storeFaults].map((fault) => fault());
          if (faults.includes("fails")) throw new Error("the store is down");
          if (faults.includes("hangs")) return await never();
          const answer = await call(...args);
          return faults.includes("loses the answer") ? await never() : answer;
        };
      },
    });
  }

  /** Sends notifications to processes at random. */
  async arrive(
    count: number,
    id = () => this.anyId(),
    account = this.random.pick(this.accounts),
  ): Promise<void> {
    for (let n = 0; n < count; n += 1) {
      const to = id();
      const at = this.now();
      const sending = this.random.pick(this.#alive).app.deliver(to, account);
      // A store that hangs holds the request up for ten seconds.
      void sending.then(({ status, eventId }) => {
        if (status === 200) this.#sent.set(inAccount(account, eventId), { id: to, account, at });
      });
      await advance(this.random.below(3));
    }
  }

  /** Lets the processes read some records of each account. */
  async begin(): Promise<void> {
    for (const account of this.accounts) for (const id of KNOWN) await this.arrive(1, () => id, account);
    await advance(SECOND);
  }

  /** A known record, or in one of four cases a new booking. */
  anyId(): string {
    if (!this.random.oneIn(4)) return this.random.pick(KNOWN);
    this.#bookings += 1;
    return `NEW${this.#bookings}`;
  }

  /** Handles the due events in a process at random, beside its loop. */
  drain(): void {
    const draining = this.random.pick(this.#alive).app.webhooks.drain({ timeout: 20 * SECOND });
    draining.catch(() => {});
  }

  /** Reads all known records in a process at random. */
  reconcile(): void {
    const { webhooks } = this.random.pick(this.#alive).app;
    const accounts = this.accounts.filter((account) => account !== undefined);
    const of = accounts.length > 0 ? { accounts: () => accounts } : {};
    const running = createReconciler(webhooks, { rate: 10_000, ...of }).run();
    running.catch(() => {});
  }

  /** Ends a process at random without a word. Another one must be left, or begin. */
  kill(): void {
    const process = this.random.pick(this.#alive);
    process.isDead = true;
    this.leasedUntil = Math.max(this.leasedUntil, this.now() + LEASE);
    if (this.#alive.length === 0) this.start();
  }

  async replace(): Promise<void> {
    const process = this.random.pick(this.#alive);
    this.start();
    let isClosed = false;
    void process.app.webhooks.close().finally(() => {
      isClosed = true;
    });
    // Step by step: two advances at once would set the clock back for each other.
    for (let step = 0; step < 200 && !isClosed; step += 1) await advance(SECOND / 10);
    process.isDead = true;
  }

  erase(account: string): void {
    const erasing = this.random.pick(this.#alive).app.webhooks.eraseAccount(account);
    erasing.catch(() => {});
    this.#erased.set(account, this.now());
  }

  noteStoreFault(): void {
    this.leasedUntil = Math.max(this.leasedUntil, this.now() + STORE_PATIENCE);
  }

  /** Ends all faults. */
  recover(): void {
    if (this.storeFaults.size > 0) this.noteStoreFault();
    for (const faults of [this.rules, this.callbacks, this.tokens, this.storeFaults]) faults.clear();
    while (this.#alive.length < 2) this.start();
  }

  /** How long all may take from now on, ms. */
  get patience(): number {
    return PROMPT + Math.max(0, Math.max(this.askedUntil, this.leasedUntil) - this.now());
  }

  /** Whether an event may have ended otherwise, or may still wait: the platform refused or did not find its record five times. */
  #mayBe({ ref, state, reason, refusals, source, timestamp }: StoredEvent): boolean {
    const hasJustFired = source === "timer" && Date.parse(timestamp) > Date.now() - SECOND;
    if (ref?.includes("FORGED") || hasJustFired) return true;
    if (ref === null || state !== "parked" || refusals < 5) return false;
    const { account, rest } = splitKey(ref);
    const isKnown = !rest.includes("NEW") && !this.#erased.has(account);
    return reason === "denied" || (reason === "not-found" && !isKnown);
  }

  async wrong(): Promise<string[]> {
    const { store } = this;
    const wrong: string[] = [];
    for (const state of ["pending", "processing", "retrying", "parked"] as const)
      for (const event of await store.list({ state, limit: 500 }))
        if (!this.#mayBe(event)) wrong.push(`${state}: ${JSON.stringify(event)}`);
    for (const event of await store.list({ state: "scheduled", limit: 500 }))
      if (Number(event.dueAt) <= Date.now()) wrong.push(`scheduled: ${event.eventId}`);
    for (const [eventId, { id, account, at }] of this.#sent) {
      const isErased = at <= (this.#erased.get(account) ?? Number.NEGATIVE_INFINITY);
      if (!isErased && (await store.get(eventId)) === undefined) wrong.push(`lost: ${eventId} ${id}`);
    }
    wrong.push(...this.#gone.map((ref) => `gone: ${ref}`));
    const since = this.now();
    for (const process of this.#alive) {
      const { state, pausedAccounts, pauseReason } = await process.app.webhooks.health();
      const reasons = [pauseReason, ...(pausedAccounts?.first.map(({ reason }) => reason) ?? [])];
      // In doubt about all records, a process waits for an answer of its own. The other one may read all forged ones first.
      process.isInDoubt = reasons.some((reason) => reason?.includes("may hide every"));
      if (!process.isInDoubt && (state !== "running" || pausedAccounts?.count))
        wrong.push(`health: ${state} ${pauseReason} ${JSON.stringify(pausedAccounts)}`);
    }
    await advance(MINUTE);
    for (const { pausedAt, isInDoubt } of this.#alive)
      if (pausedAt > since && !isInDoubt) wrong.push("paused afterwards");
    return wrong;
  }
}
