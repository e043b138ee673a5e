// The parts of a webhook handler, and how they work together.

import { checkAccount } from "../account.ts";
import { withTimeout } from "../async.ts";
import { detached } from "../async-context.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";
import { Log } from "../logger.ts";
import type { Booking, Listing } from "../models/records.ts";
import { type Topic, topics } from "../models/topics.ts";
import type { Gates } from "../queue/gates.ts";
import { Queue } from "../queue/queue.ts";
import { patientStore } from "../queue/store-call.ts";
import { declaredIn } from "../stays/declared.ts";
import { StaysEngine } from "../stays/engine.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { IntakeStore } from "../stores/forward.ts";
import type { AddOptions, ErasedAccount } from "../stores/store-options.ts";
import type { AddAnswer } from "../stores/store-steps.ts";
import type { NewEvent } from "../stores/stored-event.ts";
import { eraseAccount } from "./erase-account.ts";
import { warnAtExit } from "./exit-warning.ts";
import type { Internals } from "./internals.ts";
import { logTrouble, observerOf, SafeTelemetry } from "./observability.ts";
import { thingId } from "./own-ids.ts";
import { GoneWitness } from "./processing/gone-witness.ts";
import { createWork, followUpId } from "./processing/handle-event.ts";
import { lastResortOf } from "./processing/handle-thing.ts";
import { type Processed, type ProcessOptions, processNow } from "./processing/process-now.ts";
import { unknownStatuses, unreadableStays } from "./processing/read-warnings.ts";
import { RecentAnswers } from "./processing/record.ts";
import type { QueuedOptions, WorkOptions } from "./processing/record-work.ts";
import { Refusals } from "./processing/refusals.ts";
import { lookerAt } from "./processing/snapshots.ts";
import { zonesOf } from "./processing/time-zone.ts";
import type { ReceiveResult } from "./receiving/answers.ts";
import { type Received, Receiver } from "./receiving/receive.ts";
import type { ReceiveRequest } from "./receiving/request.ts";
import { secretPlaceOf, weaknessOf } from "./receiving/verify.ts";
import { beginningOf, laneOf } from "./refs.ts";
import { drainInContext, hasWaitUntil, type ReceiveContext, WaitingRequests } from "./request-context.ts";
import { RequestsInFlight } from "./requests-in-flight.ts";
import { noteHandler } from "./rivals.ts";
import { checkCallOptions, type Settings } from "./settings.ts";
import { SilenceMonitor } from "./silence.ts";
import { StoreCounts } from "./store-counts.ts";
import { type ReadyReport, strayCounter } from "./strays.ts";
import { workerName } from "./worker-name.ts";

/** The parts of a handler. */
export class HandlerParts<Tx> {
  readonly hasAccounts: boolean;
  /** `undefined` if `forwardTo` passes the events to a queue of the user. */
  readonly store: EventStore<Tx> | undefined;
  readonly queue: Queue<Tx> | undefined;
  readonly silence: SilenceMonitor;
  readonly #settings: Settings<Booking, Listing, Tx>;
  readonly #log: Log;
  readonly #telemetry: SafeTelemetry;
  readonly #observe: ReturnType<typeof observerOf>;
  readonly #reading: Pick<WorkOptions<Tx>, "lookAt" | "zoneOf" | "statusSeen" | "staySeen">;
  readonly #gone: Pick<QueuedOptions, "goneWitness" | "refusals"> | undefined;
  readonly counts: StoreCounts | undefined;
  readonly #intake: Receiver;
  readonly #requests = new RequestsInFlight();
  readonly #waiting = new WaitingRequests();
  readonly #countStrays: (() => Promise<ReadyReport>) | undefined;
  /** Takes back the note that this handler uses the store. */
  readonly #leave: (() => void) | undefined;
  #takeBackWarning: (() => void) | undefined;
  #hasCountedStrays = false;
  #closing: Promise<void> | undefined;
  /** When this process last recorded a notification. With a store, the store knows. */
  lastReceivedAt: Date | undefined;

  constructor(settings: Settings<Booking, Listing, Tx>) {
    const log = new Log(settings.logger);
    this.#settings = settings;
    this.#log = log;
    warnOfVerify(settings, log);
    this.#telemetry = new SafeTelemetry(settings.telemetry, log);
    this.#observe = observerOf(settings, this.#telemetry, log);
    this.hasAccounts = settings.accountFrom !== undefined;
    const zoneOf = zonesOf(settings.timeZone, log, settings.attemptTimeout);
    this.#reading = {
      zoneOf,
      lookAt: lookerAt(settings.track, zoneOf, log, settings.stays !== undefined),
      statusSeen: unknownStatuses(settings.on, log),
      staySeen: unreadableStays(log),
    };
    const store = isIntake(settings.store) ? undefined : settings.store;
    this.store = store;
    this.counts = store && new StoreCounts(store);
    this.#gone = store && {
      goneWitness: new GoneWitness(settings.client, store),
      refusals: new Refusals(patientStore(store), this.add, settings.giveUpAfter),
    };
    this.queue = store && this.#queueOf(store);
    if (this.counts) this.#telemetry.watch(this.counts);
    this.#intake = this.#makeIntake();
    this.#countStrays = this.hasAccounts && store ? strayCounter(store, log) : undefined;
    this.#leave = store && !this.hasAccounts ? noteHandler(store, log) : undefined;
    this.silence = new SilenceMonitor({
      silentAfter: settings.silentAfter,
      lastReceivedAt: async () => (store ? store.lastReceivedAt() : this.lastReceivedAt),
      tell: (event) => {
        logTrouble(event, log);
        this.#observe?.(event);
      },
    });
  }

  /** Adds an event to the store, and wakes the queue. */
  readonly add = async (event: NewEvent, options?: AddOptions): Promise<AddAnswer> => {
    const { store } = this.#settings;
    const added = await this.#telemetry.add(event, (traced) => store.add(traced, options));
    if (added === "added") this.queue?.wake(event);
    return added;
  };

  /** Starts the processing. */
  start(): void {
    // The caller may be a request, whose async context must not become that of all callbacks.
    detached(() => {
      this.queue?.start();
      // A store that does not answer is told of elsewhere.
      if (!this.#hasCountedStrays) this.#countStrays?.().catch(() => {});
      this.#hasCountedStrays = true;
      this.silence.start();
    });
  }

  /** Starts the processing for the user, who must keep the process alive: warns if it ends while events wait. */
  startForUser(): void {
    this.start();
    if (this.store && !this.closed) this.#takeBackWarning ??= warnAtExit(this.store, this.#log);
  }

  /** Records the request's event and starts its processing. Never rejects. */
  readonly receive = async (request: ReceiveRequest, context?: ReceiveContext): Promise<ReceiveResult> => {
    const { queue } = this;
    const log = this.#log;
    this.#requests.begin();
    const waits = hasWaitUntil(context);
    const own = waits || !this.#isInBackground ? this.#waiting.begin() : undefined;
    let handled: Promise<unknown> | undefined;
    try {
      if (!waits) this.#startByItself();
      const received = await this.#intake.receive(request, own?.expect);
      if (received.recorded && !this.store) this.lastReceivedAt = new Date();
      if (received.recorded && queue) {
        if (!this.#isInBackground) await runInline(received, queue, log);
        if (waits) handled = drainInContext(context, queue, log);
      }
      return received.result;
    } finally {
      if (own) void Promise.resolve(handled).then(own.end);
      this.#requests.end();
    }
  };

  /** Handles a notification without a store. */
  async process(notification: unknown, given: ProcessOptions | undefined): Promise<Processed> {
    const { hasAccounts } = this;
    const work = createWork<Tx>(this.#work);
    const [log, { process }] = [this.#log, this.#telemetry];
    const processing = { ...this.#settings, hasAccounts, work, log, process };
    return processNow(processing, notification, checkCallOptions("process", given));
  }

  async ready(): Promise<ReadyReport | undefined> {
    await this.store?.nextDue();
    return this.#countStrays?.();
  }

  get closed(): boolean {
    return this.#closing !== undefined;
  }

  close(timeout: number): Promise<void> {
    this.#closing ??= this.#close(timeout);
    return this.#closing;
  }

  async #close(timeout: number): Promise<void> {
    this.silence.stop();
    this.#leave?.();
    this.#takeBackWarning?.();
    await Promise.all([this.queue?.close(timeout), withTimeout(timeout, this.#requests.settled())]);
    this.#telemetry.close();
    this.#log.close();
  }

  get internals(): Internals {
    const { store, add, queue } = this;
    const settings = this.#settings;
    return {
      ...settings,
      ...this.#reading,
      ...{ store: store as EventStore<unknown> | undefined, log: this.#log, add },
      topics: topicsOf(settings.on),
      gates: queue?.gates,
      goneWitness: this.#gone?.goneWitness,
      refusals: this.#gone?.refusals,
      observe: (event) => this.#observe?.(event),
      serves: (server) => this.#requests.serves(server),
      start: () => {
        if (settings.autoStart && this.#isInBackground) this.start();
      },
      handlesEvents: () => queue?.handles ?? false,
      drainIfStarted: async () => {
        if (settings.autoStart) await queue?.drain();
      },
    };
  }

  get #isInBackground(): boolean {
    return this.#settings.processing === "background";
  }

  #startByItself(): void {
    if (!this.#settings.autoStart || !this.#isInBackground) return;
    try {
      this.start();
    } catch (error) {
      this.#log.limited("start", "error", "processing could not start", { error });
    }
  }

  #makeIntake(): Receiver {
    const settings = this.#settings;
    return new Receiver({
      ...settings,
      verify: settings.verify || undefined,
      counts: this.counts,
      isKnown: async (eventId) => (await this.store?.get(eventId)) !== undefined,
      add: this.add,
      observe: this.#observe,
      log: this.#log,
    });
  }

  /** What the work of an event needs, with and without a store. */
  get #work(): WorkOptions<Tx> {
    const { client, on, holds } = this.#settings;
    const { hasAccounts } = this;
    return { client, on, holds, hasAccounts, log: this.#log, ...this.#reading };
  }

  #queueOf(store: EventStore<Tx>): Queue<Tx> {
    const { hasAccounts } = this;
    const log = this.#log;
    const policy = this.#settings;
    const recent = new RecentAnswers();
    const things = thingsOf(policy.stays, store, log);
    const queued = { recent, recheckAfter: policy.recheckAfter, limits: policy, ...this.#gone! };
    const work = { ...this.#work, store: patientStore(store), queued, things };
    return new Queue<Tx>({
      store,
      laneOf,
      beginningOf,
      hasAccounts,
      work: createWork(work),
      lastResort: lastResortOf(work),
      policy,
      observe: (event) => {
        if (event.kind === "failed" || event.kind === "parked") recent.drop(event.ref);
        logTrouble(event, log);
        this.#observe?.(event);
      },
      logger: log,
      worker: workerName(),
      contextOf: (eventId) => this.#waiting.contextOf(eventId),
      process: this.#telemetry.process,
    });
  }
}

export async function eraseIn(
  { accountFrom }: Pick<Settings<Booking, Listing, never>, "accountFrom">,
  store: EventStore<never> | undefined,
  gates: Gates | undefined,
  id: string,
): Promise<ErasedAccount> {
  const account = checkAccount(id, ["id"]);
  if (accountFrom === undefined)
    throw new InvalidArgumentError({
      path: [],
      message: "eraseAccount() needs a handler with the option accountFrom",
    });
  if (!store) throw new StayhookError("eraseAccount() needs an EventStore. forwardTo keeps no events.");
  const erased = await eraseAccount(store, account);
  gates?.closeAccount(account);
  return erased;
}

/** Returns the topics whose events `on` has callbacks for. A `fallback` may handle any topic, and asks for none. */
function topicsOf(on: object): Topic[] {
  const prefixes = { bookings: "booking.", listings: "listing.", messages: "message." };
  return topics.filter((topic) => Object.keys(on).some((key) => `${key}.`.startsWith(prefixes[topic])));
}

/** Makes the engine of the option `stays`. */
function thingsOf(stays: unknown, store: EventStore<never>, log: Log): StaysEngine | undefined {
  const declared = declaredIn(stays);
  const { get } = patientStore(store);
  return declared && new StaysEngine({ declared, get, rowId: (ref, name) => thingId(ref, name), log });
}

function isIntake<Tx>(store: EventStore<Tx> | IntakeStore): store is IntakeStore {
  return (store as Partial<IntakeStore>).intakeOnly === true;
}

function warnOfVerify(
  { verify, accountFrom }: Pick<Settings<Booking, Listing, never>, "verify" | "accountFrom">,
  log: Log,
): void {
  if (verify === undefined)
    log.warn(
      "the handler has no `verify` option, so anyone who knows its URL can send notifications. " +
        "Set `verify: sharedSecret(...)`, or `verify: false` if a proxy checks the requests",
    );
  if (accountFrom !== undefined && secretPlaceOf(verify)?.hasAccounts === false)
    log.warn(
      "all accounts have one secret, so each host who reads its own URL can send notifications of other accounts. " +
        "Set `perAccount: true` in sharedSecret",
    );
  const weakness = verify && weaknessOf(verify);
  if (weakness) log.warn(weakness);
}

/** Handles the event. Stops waiting for it at `replyBy`. Never rejects. */
async function runInline<Tx>({ recorded, replyBy }: Received, queue: Queue<Tx>, log: Log): Promise<void> {
  const { event, added } = recorded!;
  const { eventId } = event;
  try {
    await queue.runNow(event, replyBy);
    // The first delivery may have ended before its follow-up event was handled.
    if (added === "duplicate") await queue.runNow({ eventId: followUpId(eventId), ref: null }, replyBy);
  } catch (error) {
    log.error(`event ${eventId} could not be processed inline`, { error, eventId });
  }
}
