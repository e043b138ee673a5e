import { type DrainOptions, type DrainResult, drain } from "./drain.ts";
import { Loop } from "./loop.ts";
import { OutageGate } from "./outage.ts";
import type { QueueOptions } from "./policy.ts";
import { Scout } from "./scout.ts";
import { Sweep } from "./sweep.ts";
import { atMost } from "./timer.ts";
import { Workers } from "./workers.ts";

/** How often an event is looked at that another process, or another event of its record, holds up, ms. */
const LOOK_AGAIN = 250;

/** Joins the parts of the queue: one set of workers, and the three that put them to work. */
export class Queue<Tx> {
  readonly #options: QueueOptions<Tx>;
  readonly #gate: OutageGate;
  readonly #workers: Workers<Tx>;
  readonly #loop: Loop<Tx>;
  readonly #scout: Scout<Tx>;
  readonly #sweep: Sweep<Tx>;
  #closing: Promise<void> | undefined;

  constructor(options: QueueOptions<Tx>) {
    const { concurrency, backoff } = options.policy;
    this.#options = options;
    this.#gate = new OutageGate({
      concurrency,
      backoff,
      onPause: (pause) => {
        options.observe({ kind: "paused", ...pause });
        if (this.#loop.started) this.#scout.paused();
      },
      onResume: () => {
        options.observe({ kind: "resumed" });
        this.#loop.wake();
      },
    });
    this.#workers = new Workers(options, this.#gate);
    this.#loop = new Loop(options, this.#workers, this.#gate);
    this.#scout = new Scout(options, this.#workers, this.#gate);
    this.#sweep = new Sweep(options);
  }

  get state(): "idle" | "running" | "paused" | "stopped" {
    if (this.#closing) return "stopped";
    if (this.#gate.paused) return "paused";
    return this.#loop.started ? "running" : "idle";
  }

  /** Begins to take up what is due by itself. */
  start(): void {
    if (this.#closing) return;
    if (!this.#loop.started) this.#sweep.start();
    this.#loop.start();
  }

  /** An event was added by this process. */
  added(eventId: string): void {
    if (this.#loop.started) this.#scout.arrived(eventId);
    // A store that notifies has woken the loop by itself.
    if (!this.#options.store.subscribe) this.#loop.wake();
  }

  /** What is due now, because somebody asks: a pause is probed rather than waited for. */
  drain(options: DrainOptions): Promise<DrainResult> {
    this.#gate.probeNow();
    return this.push(options);
  }

  /** What is due now, on the occasion of a notification. */
  async push(options: DrainOptions = {}): Promise<DrainResult> {
    if (this.#closing) return { done: 0, failed: 0 };
    const result = await drain(this.#workers, this.#gate, options);
    await this.#sweep.runIfDue();
    return result;
  }

  /** Runs this event now, if it can be claimed, and waits for its end until `deadline` (monotonic, ms). */
  async runNow(eventId: string, deadline: number): Promise<void> {
    for (let left = 0; !this.#closing; ) {
      left = deadline - performance.now();
      if (left <= 0) return;
      const running = this.#workers.running.includes(eventId);
      const outOfTurn = this.#gate.refusing;
      const noSlot = this.#workers.slots <= 0;
      const [claim] = running ? [] : await this.#workers.claim({ limit: 1, eventId, outOfTurn });
      if (claim) return atMost(deadline - performance.now(), [this.#workers.start(claim)]);
      if (this.#gate.paused && !running) return;
      if (!running && !(await this.#waitsForItsTurn(eventId))) return;
      await atMost(Math.min(left, LOOK_AGAIN), [this.#workers.nextChange({ noSlot })]);
    }
  }

  /** Takes no more, lets what runs finish for `timeout` ms, then cuts it off and gives the leases back. */
  close(timeout: number): Promise<void> {
    this.#closing ??= this.#close(timeout);
    return this.#closing;
  }

  async #close(timeout: number): Promise<void> {
    this.#loop.stop();
    this.#scout.stop();
    await Promise.all([this.#workers.close(timeout), atMost(timeout, [this.#sweep.close()])]);
  }

  async #waitsForItsTurn(eventId: string): Promise<boolean> {
    const event = await this.#options.store.get(eventId);
    return event?.state === "pending" || event?.state === "processing";
  }
}
