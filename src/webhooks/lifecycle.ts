// What a webhook handler does from its first request to its close.

import { withTimeout } from "../async.ts";
import { detached } from "../async-context.ts";
import type { DrainOptions, DrainResult } from "../queue/drain.ts";
import type { Queue } from "../queue/queue.ts";
import { warnAtExit } from "./exit-warning.ts";
import type { HandlerParts } from "./handler-parts.ts";
import { followUpId } from "./processing/handle-event.ts";
import type { ReceiveResult } from "./receiving/answers.ts";
import type { Received } from "./receiving/receive.ts";
import type { ReceiveRequest } from "./receiving/request.ts";
import { drainInContext, hasWaitUntil, type ReceiveContext } from "./request-context.ts";
import { RequestsInFlight } from "./requests-in-flight.ts";
import { noteHandler } from "./rivals.ts";
import { SilenceMonitor } from "./silence.ts";
import { type ReadyReport, strayCounter } from "./strays.ts";
import { logTrouble } from "./trouble.ts";

/** A handler between its creation and its close. */
export class Lifecycle<Tx> {
  readonly #silence: SilenceMonitor;
  readonly requests = new RequestsInFlight();
  readonly #parts: HandlerParts<Tx>;
  readonly #countStrays: (() => Promise<ReadyReport>) | undefined;
  /** Takes back the note that this handler uses the store. */
  readonly #leave: (() => void) | undefined;
  #takeBackWarning: (() => void) | undefined;
  #hasCountedStrays = false;
  #closing: Promise<void> | undefined;
  #lastReceivedAt: Date | undefined;

  constructor(parts: HandlerParts<Tx>) {
    const { settings, hasAccounts, store, observe, log } = parts;
    this.#parts = parts;
    this.#countStrays = hasAccounts && store ? strayCounter(store, log) : undefined;
    this.#leave = store && !hasAccounts ? noteHandler(store, log) : undefined;
    this.#silence = new SilenceMonitor({
      silentAfter: settings.silentAfter,
      lastReceivedAt: async () => (store ? store.lastReceivedAt() : this.#lastReceivedAt),
      tell: (event) => {
        logTrouble(event, log);
        observe?.(event);
      },
    });
  }

  /** When this process last recorded a notification, without a store. With a store, the store knows. */
  get lastReceivedAt(): Date | undefined {
    return this.#lastReceivedAt;
  }

  get closed(): boolean {
    return this.#closing !== undefined;
  }

  get isInBackground(): boolean {
    return this.#parts.settings.processing === "background";
  }

  /** Starts the processing. */
  start(): void {
    // The caller may be a request, whose async context must not become that of all callbacks.
    detached(() => {
      this.#parts.queue?.start();
      // A store that does not answer is told of elsewhere.
      if (!this.#hasCountedStrays) this.#countStrays?.().catch(() => {});
      this.#hasCountedStrays = true;
      this.#silence.start();
    });
  }

  /** Starts the processing for the user, who must keep the process alive: warns if it ends while events wait. */
  startForUser(): void {
    const { store, log } = this.#parts;
    this.start();
    if (store && !this.closed) this.#takeBackWarning ??= warnAtExit(store, log);
  }

  #startByItself(): void {
    const { settings, log } = this.#parts;
    if (!settings.autoStart || !this.isInBackground) return;
    try {
      this.start();
    } catch (error) {
      log.limited("start", "error", "processing could not start", { error });
    }
  }

  /** Records the request's event and starts its processing. Never rejects. */
  readonly receive = async (request: ReceiveRequest, context?: ReceiveContext): Promise<ReceiveResult> => {
    const { store, queue, receiver, waiting, log } = this.#parts;
    this.requests.begin();
    const waits = hasWaitUntil(context);
    const own = waits || !this.isInBackground ? waiting.begin() : undefined;
    let handled: Promise<unknown> | undefined;
    try {
      if (!waits) this.#startByItself();
      const received = await receiver.receive(request, own?.expect);
      if (received.recorded && !store) this.#lastReceivedAt = new Date();
      if (received.recorded && queue) {
        if (!this.isInBackground) await this.#runInline(received, queue);
        if (waits) handled = drainInContext(context, queue, log);
      }
      return received.result;
    } finally {
      if (own) void Promise.resolve(handled).then(own.end);
      this.requests.end();
    }
  };

  /** Handles the event. Stops waiting for it at `replyBy`. Never rejects. */
  async #runInline({ recorded, replyBy }: Received, queue: Queue<Tx>): Promise<void> {
    const { event, added } = recorded!;
    const { eventId } = event;
    try {
      await queue.runNow(event, replyBy);
      // The first delivery may have ended before its follow-up event was handled.
      if (added === "duplicate") await queue.runNow({ eventId: followUpId(eventId), ref: null }, replyBy);
    } catch (error) {
      this.#parts.log.error(`event ${eventId} could not be processed inline`, { error, eventId });
    }
  }

  /** Handles the due events, and looks for silence. Without a queue, there is only the silence. */
  async drain(options: DrainOptions): Promise<DrainResult> {
    const { queue } = this.#parts;
    const listen = () => this.#silence.check();
    if (queue) return queue.drain(options, listen);
    await listen();
    return { done: 0, failed: 0 };
  }

  async ready(): Promise<ReadyReport | undefined> {
    await this.#parts.store?.nextDue();
    return this.#countStrays?.();
  }

  close(timeout: number): Promise<void> {
    this.#closing ??= this.#close(timeout);
    return this.#closing;
  }

  async #close(timeout: number): Promise<void> {
    const { queue, telemetry, log } = this.#parts;
    this.#silence.stop();
    this.#leave?.();
    this.#takeBackWarning?.();
    await Promise.all([queue?.close(timeout), withTimeout(timeout, this.requests.settled())]);
    telemetry.close();
    log.close();
  }
}
