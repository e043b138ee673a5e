import { accountOf, checkAccount } from "../account.ts";
import { withTimeout } from "../async.ts";
import { detached } from "../async-context.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";
import { Log } from "../logger.ts";
import type { WebhookNotification } from "../models/notification.ts";
import type { Booking, Listing } from "../models/records.ts";
import { type Topic, topics } from "../models/topics.ts";
import type { DrainOptions, DrainResult } from "../queue/drain.ts";
import { Queue } from "../queue/queue.ts";
import type { AddOptions, ErasedAccount, EventStore } from "../stores/event-store.ts";
import type { IntakeStore } from "../stores/forward.ts";
import type { NewEvent } from "../stores/stored-event.ts";
import { type EndpointUrlOptions, endpointUrl } from "./endpoint-url.ts";
import { eraseAccount } from "./erase-account.ts";
import type { AccountField, WebhookEvent } from "./events.ts";
import { warnAtExit } from "./exit-warning.ts";
import { type Health, healthOf } from "./health.ts";
import { withInternals } from "./internals.ts";
import { logTrouble, observerOf, SafeTelemetry } from "./observability.ts";
import { checkCallOptions, checkOptions, type Settings, type WebhookHandlerOptions } from "./options.ts";
import { GoneWitness } from "./processing/gone-witness.ts";
import { createWork, followUpId } from "./processing/handle-event.ts";
import { type Processed, type ProcessOptions, processNow } from "./processing/process-now.ts";
import { RecentAnswers, type SnapshotOf, snapshots } from "./processing/record.ts";
import { Refusals } from "./processing/refusals.ts";
import { zoneSetter } from "./processing/time-zone.ts";
import { type StatusSeen, unknownStatuses } from "./processing/unknown-status.ts";
import { type StaySeen, unreadableStays } from "./processing/unreadable-stay.ts";
import { witnessReader } from "./processing/witness-reader.ts";
import type { AccountFrom } from "./receiving/account.ts";
import type { ReceiveResult } from "./receiving/answers.ts";
import { type Received, Receiver } from "./receiving/receive.ts";
import type { ReceiveRequest } from "./receiving/request.ts";
import { secretPlaceOf, weaknessOf } from "./receiving/verify.ts";
import { laneOf } from "./refs.ts";
import {
  drainInContext,
  type FetchContext,
  fetchWith,
  hasWaitUntil,
  type ReceiveContext,
  WaitingRequests,
} from "./request-context.ts";
import { RequestsInFlight } from "./requests-in-flight.ts";
import { noteHandler } from "./rivals.ts";
import { SilenceMonitor } from "./silence.ts";
import { StoreCounts } from "./store-counts.ts";
import { type ReadyReport, strayCounter } from "./strays.ts";
import { type RecordTimers, recordTimers, TimerRules } from "./timers.ts";
import { workerName } from "./worker-name.ts";

export type { AvailableHealth, Health, UnavailableHealth } from "./health.ts";

/**
 * The handler that {@link createWebhookHandler} makes. For node:http and Express, pass it to `toNodeHandler` of
 * `stayhook/node`. Other adapters are `toFastifyPlugin` of `stayhook/fastify`, `toKoaMiddleware` of `stayhook/koa`
 * and `toLambdaHandler` of `stayhook/lambda`. With other frameworks, call `fetch`. The methods work without `this`.
 */
export interface WebhookHandler<out E = WebhookEvent> {
  /** The type of the handler's events, for `EventOf`. Exists only in TypeScript, not at run time. */
  readonly "~event"?: E | undefined;
  /** Takes a web `Request`, for Hono, Next.js, Workers, Bun, Deno, SvelteKit, Remix and others. Never rejects. */
  readonly fetch: (request: Request, context?: FetchContext) => Promise<Response>;
  /** Takes a request as a plain object. The adapters for frameworks call this method. Never rejects. */
  readonly receive: (request: ReceiveRequest, context?: ReceiveContext) => Promise<ReceiveResult>;
  /**
   * Processes one notification now, without a store. Call `process` in the worker of your own queue. It takes a
   * notification, or an event that `forwardTo` sent, as an object or as JSON text. In the callback's event,
   * `previous` is `undefined`, `changed` is `true`, and `atomically` throws. The option `skipUnchanged` has no effect.
   *
   * @throws ProcessingError that says whether and when to try again
   * @example
   * ```ts
   * new Worker("notifications", (job) => webhooks.process(job.data, { attempt: job.attemptsMade + 1 }));
   * ```
   */
  process(
    notification: WebhookNotification | NewEvent | string,
    options?: ProcessOptions,
  ): Promise<Processed>;
  /**
   * Queries the store once. Before this query, the store creates its missing tables. If you call `ready` at startup,
   * an app with a broken store fails at once. Otherwise, the app starts and answers 503.
   *
   * @returns in a handler with `accountFrom`, how many events have no account
   * @throws the error of the store
   */
  ready(): Promise<ReadyReport | undefined>;
  /**
   * Ends the handling of events: starts no new attempt, and waits up to `timeout` for running callbacks and for the
   * requests that are in flight. Then aborts the `signal` of callbacks that still run, waits for them 3 s at most, and
   * releases their events to other processes, for which the store has 1 s. Until the store is closed, the handler
   * records notifications and answers them as before. So close the handler before the store, and the server before both.
   *
   * @throws InvalidArgumentError if `timeout` is not a duration. The handler then stays open
   * @example
   * ```ts
   * server.close();
   * await reconciler.close();
   * await webhooks.close();
   * await store.close();
   * ```
   */
  close(options?: {
    /** How long callbacks and requests may take to finish: ms, or a text such as `"30s"`. Default `"10s"`. */
    readonly timeout?: number | string | undefined;
  }): Promise<void>;
  /** Calls {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
  /**
   * Processes due events in the background, until {@link close} is called. A second call does nothing. The background
   * work does not keep the process alive: if nothing else does, add a timer. If such a process ends while events wait,
   * the handler logs a warning.
   */
  start(): void;
  /**
   * Makes one attempt at each event that is due now, for cron jobs, serverless and tests. Ends when no event is due, or
   * when the platform is out of reach. Does not wait for attempts of other processes.
   *
   * @throws the error of the store, or an InvalidArgumentError naming the option that is wrong
   */
  drain(options?: DrainOptions): Promise<DrainResult>;
  /**
   * The timers of one booking or listing, for use outside of callbacks. For example, set the timers of bookings that
   * were handled before you added the timer's callback.
   *
   * @param ref - `booking:<code>` or `listing:<id>`; with `accountFrom`, `<account>/booking:<code>` or
   * `<account>/listing:<id>`
   * @throws InvalidArgumentError if `ref` is neither
   * @example
   * ```ts
   * await webhooks.timers("booking:HX3K9").set("door-code", new Date("2026-12-01T15:00:00Z"));
   * ```
   */
  timers(ref: string): RecordTimers;
  /**
   * Returns the URL to give to the platform: `base` with the parameters of `accountFrom` and `sharedSecret`, which
   * replaces parameters of these names. Takes the first of several secrets. With `accountFrom` as a function, `base` must
   * name the account itself. A `verify` of your own, and a secret in a header, are not in the URL.
   *
   * @param base - the https URL of your endpoint, or an http URL of a loopback host
   * @throws InvalidArgumentError if an argument is wrong, or if the handler would not find the account or the secret in
   * the URL
   * @example
   * ```ts
   * const url = await webhooks.endpointUrl("https://example.com/hooks", { account: "a17" });
   * await client.account("a17").webhookConfig.ensure({ endpoints: url });
   * ```
   */
  endpointUrl(base: string | URL, options?: EndpointUrlOptions): Promise<string>;
  /**
   * Deletes the events, timers and snapshots of an account, and its place in the reconciler's passes, in steps. Keeps the
   * records that are being processed, and counts them. May be called again.
   *
   * @throws InvalidArgumentError if `id` is no account, or if the handler has no `accountFrom`
   * @throws an error of the store
   */
  eraseAccount(id: string): Promise<ErasedAccount>;
  /** Reports the health of the handler. Never rejects: if the store does not answer, `state` is `unavailable`. */
  health(): Promise<Health>;
}

/** The handler that {@link createWebhookHandler} makes for a `forwardTo` store. Your own queue processes the events. */
export interface ForwardingHandler<out E = WebhookEvent>
  extends Omit<WebhookHandler<E>, "start" | "drain" | "health" | "timers" | "eraseAccount"> {}

type AnyStore<Tx> = EventStore<Tx> | IntakeStore;

/**
 * Makes the handler of your webhook endpoint. The handler records each notification before it answers, and ignores
 * duplicates. Then it reads the booking or listing, and runs the callback for the status.
 *
 * @throws InvalidArgumentError naming each option that is wrong
 * @example
 * ```ts
 * import { createServer } from "node:http";
 * import { createWebhookHandler, memoryStore, sharedSecret, stay, StayhookClient } from "stayhook";
 * import { toNodeHandler } from "stayhook/node";
 *
 * const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
 * const webhooks = createWebhookHandler({
 *   client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
 *   store: memoryStore(),
 *   verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
 *   on: {
 *     // One stay for each booking code, so that a moved stay replaces the old one.
 *     "booking.Confirmed": ({ booking }) => calendar.set(booking.bookingCode, booking.listingId, stay(booking)),
 *     "booking.Cancelled": ({ booking }) => calendar.delete(booking.bookingCode),
 *   },
 * });
 * createServer(toNodeHandler(webhooks)).listen(3000);
 * ```
 */
// Do not use overloads: TypeScript would report a misspelled option once for each overload.
export function createWebhookHandler<
  B extends Booking,
  L extends Listing,
  Tx = never,
  S extends AnyStore<Tx> = AnyStore<Tx>,
  FB extends string = never,
  FL extends string = never,
  A extends AccountFrom | undefined = AccountFrom | undefined,
>(
  options: WebhookHandlerOptions<B, L, Tx, FB, FL, A> & { readonly store: S },
): [S] extends [IntakeStore]
  ? ForwardingHandler<WebhookEvent<B, L, Tx, FB | FL, AccountField<A>>>
  : WebhookHandler<WebhookEvent<B, L, Tx, FB | FL, AccountField<A>>> {
  const settings = checkOptions<B, L, Tx>(options);
  const log = new Log(settings.logger);
  warnOfVerify(settings, log);
  const telemetry = new SafeTelemetry(settings.telemetry, log);
  const observe = observerOf(settings, telemetry, log);
  const snapshotOf = snapshots(settings.track, zoneSetter(settings.timeZone, log));
  const rules = new TimerRules(settings.on);
  const statusSeen = unknownStatuses(rules, log);
  const staySeen = unreadableStays(log);
  const store = isIntake(settings.store) ? undefined : settings.store;
  const counts = store && new StoreCounts(store, log);
  const goneWitness = store && new GoneWitness(settings.client, store);
  const waiting = new WaitingRequests();
  const shared = { log, telemetry, observe, rules, snapshotOf, statusSeen, staySeen, waiting };
  const refusals =
    store && new Refusals(store, (event, options) => add(event, options), settings.giveUpAfter);
  const queue = goneWitness && refusals && queueOf(settings, store, { ...shared, goneWitness, refusals });
  if (counts) telemetry.watch(counts);

  const add = async (event: NewEvent, addOptions?: AddOptions) => {
    const added = await telemetry.add(event, (traced) => settings.store.add(traced, addOptions));
    if (added === "added") queue?.wake(event);
    return added;
  };
  const intake = new Receiver({
    ...settings,
    verify: settings.verify || undefined,
    counts,
    isKnown: async (eventId) => (await store?.get(eventId)) !== undefined,
    add,
    observe,
    log,
  });
  const hasAccounts = settings.accountFrom !== undefined;
  const countStrays = hasAccounts && store ? strayCounter(store, log) : undefined;
  const leave = store && !hasAccounts ? noteHandler(store, log) : undefined;
  const requests = new RequestsInFlight();
  let lastReceivedAt: Date | undefined;
  let closing: Promise<void> | undefined;
  const silence = new SilenceMonitor({
    silentAfter: settings.silentAfter,
    lastReceivedAt: async () => (store ? store.lastReceivedAt() : lastReceivedAt),
    tell: (event) => {
      logTrouble(event, log);
      observe?.(event);
    },
  });
  let takeBackWarning: (() => void) | undefined;
  const inBackground = settings.processing === "background";
  let countsStrays = countStrays !== undefined;
  const startNow = (): void => {
    queue?.start();
    // A store that does not answer is told of elsewhere.
    if (countsStrays) countStrays?.().catch(() => {});
    countsStrays = false;
    if (!closing) silence.start();
  };
  // The caller may be a request, whose async context must not become that of all callbacks.
  const start = (): void => detached(startNow);

  /** Records the request's event and starts its processing. Never rejects. */
  const receive = async (request: ReceiveRequest, context?: ReceiveContext): Promise<ReceiveResult> => {
    requests.begin();
    const waits = hasWaitUntil(context);
    const own = waits || !inBackground ? waiting.begin() : undefined;
    let handled: Promise<unknown> | undefined;
    try {
      if (settings.autoStart && inBackground && !waits) tryToStart(start, log);
      const received = await intake.receive(request, own?.expect);
      if (received.recorded && !store) lastReceivedAt = new Date();
      if (received.recorded && queue) {
        if (!inBackground) await runInline(received, queue, log);
        if (waits) handled = drainInContext(context, queue, log);
      }
      return received.result;
    } finally {
      if (own) void Promise.resolve(handled).then(own.end);
      requests.end();
    }
  };

  const close = async (timeout: number): Promise<void> => {
    silence.stop();
    leave?.();
    takeBackWarning?.();
    await Promise.all([queue?.close(timeout), withTimeout(timeout, requests.settled())]);
    telemetry.close();
    log.close();
  };

  const handler: WebhookHandler<WebhookEvent<B, L, Tx, FB | FL, AccountField<A>>> = {
    receive,
    fetch: (request, context) => fetchWith(receive, request, context),
    start: () => {
      start();
      if (store && !closing) takeBackWarning ??= warnAtExit(store, log);
    },
    drain: async (given) => {
      const options = checkCallOptions("drain", given);
      if (queue) return queue.drain(options, () => silence.check());
      await silence.check();
      return { done: 0, failed: 0 };
    },
    process: async (notification, given) => {
      const { accountFrom, client, on, skipUnchanged } = settings;
      const hasAccounts = accountFrom !== undefined;
      const noTimers = "process() has no store, so it has no timers.";
      const common = { client, hasAccounts, on, rules, skipUnchanged, snapshotOf, statusSeen, staySeen };
      const work = createWork({ ...common, transactional: false, noTimers });
      const processing = { ...settings, hasAccounts, work, log, process: telemetry.process };
      return processNow(processing, notification, checkCallOptions("process", given));
    },
    ready: async () => {
      await store?.nextDue();
      return countStrays?.();
    },
    timers: (ref) => {
      if (!store)
        throw new StayhookError("timers() needs an EventStore. A store from forwardTo has no timers.");
      const hasAccounts = settings.accountFrom !== undefined;
      return recordTimers({ ref, hasAccounts, rules, store, add, closed: () => closing !== undefined });
    },
    eraseAccount: (id) => eraseIn(settings, store, id),
    endpointUrl: (base, options) => endpointUrl(settings, base, options),
    health: () =>
      healthOf({ store, counts, queue, hasAccounts, closed: closing !== undefined, lastReceivedAt }),
    close: async (given) => {
      const { timeout = 10_000 } = checkCallOptions("close", given);
      closing ??= close(timeout);
      await closing;
    },
    [Symbol.asyncDispose]: () => handler.close(),
  };
  return withInternals(handler, {
    ...settings,
    ...{ store, snapshotOf, statusSeen, log, add },
    topics: topicsOf(settings.on),
    breaker: queue?.breaker,
    ...{ goneWitness, refusals },
    observe: (event) => observe?.(event),
    serves: (server) => requests.serves(server),
    start: () => {
      if (settings.autoStart && inBackground) start();
    },
    handlesEvents: () => queue?.handles ?? false,
    drainIfStarted: async () => {
      if (settings.autoStart) await queue?.push();
    },
  });
}

async function eraseIn(
  { accountFrom }: Pick<Settings<Booking, Listing, never>, "accountFrom">,
  store: EventStore<never> | undefined,
  id: string,
): Promise<ErasedAccount> {
  const account = checkAccount(id, ["id"]);
  if (accountFrom === undefined)
    throw new InvalidArgumentError({
      path: [],
      message: "eraseAccount() needs a handler with the option accountFrom",
    });
  if (!store) throw new StayhookError("eraseAccount() needs an EventStore. forwardTo keeps no events.");
  return eraseAccount(store, account);
}

/** Returns the topics whose events `on` has callbacks for. A `fallback` may handle any topic, and asks for none. */
function topicsOf(on: object): Topic[] {
  const prefixes = { bookings: "booking.", listings: "listing.", messages: "message." };
  return topics.filter((topic) => Object.keys(on).some((key) => `${key}.`.startsWith(prefixes[topic])));
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

interface Shared {
  readonly log: Log;
  readonly telemetry: SafeTelemetry;
  readonly observe: ReturnType<typeof observerOf>;
  readonly rules: TimerRules;
  readonly snapshotOf: SnapshotOf;
  readonly statusSeen: StatusSeen;
  readonly staySeen: StaySeen;
  readonly goneWitness: GoneWitness;
  readonly refusals: Refusals;
  readonly waiting: WaitingRequests;
}

function queueOf<B extends Booking, L extends Listing, Tx>(
  settings: Settings<B, L, Tx>,
  store: EventStore<Tx>,
  {
    log,
    telemetry,
    observe,
    rules,
    snapshotOf,
    statusSeen,
    staySeen,
    goneWitness,
    refusals,
    waiting,
  }: Shared,
): Queue<Tx> {
  const { accountFrom, client, on, skipUnchanged, recheckAfter } = settings;
  const hasAccounts = accountFrom !== undefined;
  const recent = new RecentAnswers();
  const transactional = store.transactional === true;
  const find: typeof store.get = (eventId) => store.get(eventId);
  const queued = { recent, recheckAfter, find, goneWitness, refusals, limits: settings };
  const list: typeof store.list = (options) => store.list(options);
  const record = { rules, noTimers: undefined, list, snapshotOf, statusSeen, staySeen };
  return new Queue<Tx>({
    store,
    laneOf,
    ...(hasAccounts && { isStray: (event) => accountOf(event) === undefined }),
    readWitness: witnessReader(client, goneWitness),
    work: createWork({ client, hasAccounts, on, skipUnchanged, transactional, queued, ...record }),
    policy: settings,
    observe: (event) => {
      if (event.kind === "failed" || event.kind === "parked") recent.drop(event.ref);
      logTrouble(event, log);
      observe?.(event);
    },
    logger: log,
    worker: workerName(),
    contextOf: (eventId) => waiting.contextOf(eventId),
    process: telemetry.process,
  });
}

function tryToStart(start: () => void, log: Log): void {
  try {
    start();
  } catch (error) {
    log.limited("start", "error", "processing could not start", { error });
  }
}

/** Handles the event. Stops waiting for it at `replyBy`. Never rejects. */
async function runInline<Tx>({ recorded, replyBy }: Received, queue: Queue<Tx>, log: Log): Promise<void> {
  const { event, added } = recorded!;
  const { eventId } = event;
  try {
    await queue.runNow(eventId, replyBy);
    // The first delivery may have ended before its follow-up event was handled.
    if (added === "duplicate") await queue.runNow(followUpId(eventId), replyBy);
  } catch (error) {
    log.error(`event ${eventId} could not be processed inline`, { error, eventId });
  }
}
