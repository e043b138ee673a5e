import { StayhookError } from "../errors.ts";
import type { WebhookNotification } from "../models/notification.ts";
import type { Booking, Listing } from "../models/records.ts";
import { type Topic, topics } from "../models/topics.ts";
import type { DrainOptions, DrainResult } from "../queue/drain.ts";
import type { ThingStatus } from "../stays/things.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { IntakeStore } from "../stores/forward.ts";
import type { ErasedAccount } from "../stores/store-options.ts";
import type { NewEvent } from "../stores/stored-event.ts";
import { type EndpointUrlOptions, endpointUrl } from "./endpoint-url.ts";
import { eraseIn } from "./erase-account.ts";
import type { AccountField } from "./event-additions.ts";
import type { WebhookCallbacks, WebhookEvent } from "./events.ts";
import { type HandlerParts, type HandlerSettings, partsOf } from "./handler-parts.ts";
import { type Health, healthOf } from "./health.ts";
import { type Internals, withInternals } from "./internals.ts";
import { Lifecycle } from "./lifecycle.ts";
import type { CheckedKeys } from "./on-keys.ts";
import type { WebhookHandlerOptions } from "./options.ts";
import { createWork } from "./processing/handle-event.ts";
import { type Processed, type ProcessOptions, processNow } from "./processing/process-now.ts";
import type { AccountFrom } from "./receiving/account.ts";
import type { ReceiveResult } from "./receiving/answers.ts";
import type { ReceiveRequest } from "./receiving/request.ts";
import { checkRef } from "./refs.ts";
import { type FetchContext, fetchWith, type ReceiveContext } from "./request-context.ts";
import { checkCallOptions, checkOptions } from "./settings.ts";
import type { ReadyReport } from "./strays.ts";
import { thingsOf } from "./things-of.ts";
import { type RecordTimers, recordTimers } from "./timers.ts";

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
   * `previous` is `undefined`, `changed` is `true`, and `atomically` throws.
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
   * Makes one attempt at each event that is due now, for cron jobs, serverless and tests. Ends when no event is due. In a
   * pause, makes the try if that is due, and ends although other events wait. Does not wait for attempts of other
   * processes.
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
   * Returns the things of a booking: what exists for its stay, what is to come, and what has run. A thing that was ended or
   * dropped is not among them.
   *
   * @param ref - `booking:<code>`, or `<account>/booking:<code>` with `accountFrom`
   * @throws InvalidArgumentError if `ref` is no booking, or an error of the store
   * @example
   * ```ts
   * for (const { name, state, at } of await webhooks.things("booking:HX3K9")) console.log(name, state, at);
   * ```
   */
  things(ref: string): Promise<ThingStatus[]>;
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
   * Deletes the events, timers and snapshots of an account, and its place in the reconciler's passes, in steps. Ends its
   * pauses in this process. Keeps the records that are being processed, and counts them. May be called again.
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
  extends Omit<WebhookHandler<E>, "start" | "drain" | "health" | "timers" | "things" | "eraseAccount"> {}

type AnyStore<Tx> = EventStore<Tx> | IntakeStore;

/**
 * Makes the handler of your webhook endpoint. The handler records each notification before it answers, and ignores
 * duplicates. Then it reads the booking or listing, and runs the callback for the status.
 *
 * @throws InvalidArgumentError naming each option that is wrong
 * @example
 * ```ts
 * import { createServer } from "node:http";
 * import { createWebhookHandler, memoryStore, sharedSecret, StayhookClient } from "stayhook";
 * import { toNodeHandler } from "stayhook/node";
 *
 * const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
 * const webhooks = createWebhookHandler({
 *   client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
 *   store: memoryStore(),
 *   verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
 *   on: {
 *     // One stay for each booking code, so that a moved stay replaces the old one.
 *     "booking.Confirmed": ({ booking, stayChange }) => calendar.set(booking.bookingCode, stayChange.to),
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
  Keys extends PropertyKey = never,
>(
  options: WebhookHandlerOptions<B, L, Tx, FB, FL, A> & {
    /** Tells of misspelt keys. */
    readonly on: CheckedKeys<Keys, WebhookCallbacks<B, L, Tx, NoInfer<FB | FL>, AccountField<A>>>;
    /** Records the events, or forwards the notifications. */
    readonly store: S;
  },
): [S] extends [IntakeStore]
  ? ForwardingHandler<WebhookEvent<B, L, Tx, FB | FL, AccountField<A>>>
  : WebhookHandler<WebhookEvent<B, L, Tx, FB | FL, AccountField<A>>> {
  const settings = checkOptions<B, L, Tx>(options);
  const parts = partsOf(settings as unknown as HandlerSettings<Tx>);
  const lifecycle = new Lifecycle(parts);
  const { store, hasAccounts, add } = parts;
  const handler: WebhookHandler<WebhookEvent<B, L, Tx, FB | FL, AccountField<A>>> = {
    receive: lifecycle.receive,
    fetch: (request, context) => fetchWith(lifecycle.receive, request, context),
    start: () => lifecycle.startForUser(),
    drain: async (given) => lifecycle.drain(checkCallOptions("drain", given)),
    process: async (notification, given) => processIn(parts, notification, given),
    ready: () => lifecycle.ready(),
    timers: (ref) => {
      const own = ownStore(store, "timers", "A store from forwardTo has no timers.");
      const closed = () => lifecycle.closed;
      return recordTimers({ ref, hasAccounts, on: settings.on, store: own, add, closed });
    },
    things: async (ref) => {
      const own = ownStore(store, "things", "A store from forwardTo keeps no ledger.");
      checkRef(ref, hasAccounts, ["booking"]);
      return thingsOf(own, ref);
    },
    eraseAccount: (id) => eraseIn(parts, id),
    endpointUrl: (base, urlOptions) => endpointUrl(settings, base, urlOptions),
    health: () => healthOf({ ...parts, closed: lifecycle.closed, lastReceivedAt: lifecycle.lastReceivedAt }),
    close: async (given) => {
      const { timeout = 10_000 } = checkCallOptions("close", given);
      await lifecycle.close(timeout);
    },
    [Symbol.asyncDispose]: () => handler.close(),
  };
  return withInternals(handler, internalsIn(parts, lifecycle));
}

/** @throws StayhookError if `forwardTo` passes the events to a queue of the user */
function ownStore<Tx>(store: EventStore<Tx> | undefined, method: string, otherwise: string): EventStore<Tx> {
  if (store) return store;
  throw new StayhookError(`${method}() needs an EventStore. ${otherwise}`);
}

/** Handles a notification without a store. */
function processIn<Tx>(
  { settings, hasAccounts, work, log, telemetry: { process } }: HandlerParts<Tx>,
  notification: unknown,
  given: ProcessOptions | undefined,
): Promise<Processed> {
  const processing = { ...settings, hasAccounts, work: createWork(work), log, process };
  return processNow(processing, notification, checkCallOptions("process", given));
}

/** What the reconciler, the console and the adapters may use of a handler. */
function internalsIn<Tx>(parts: HandlerParts<Tx>, lifecycle: Lifecycle<Tx>): Internals {
  const { settings, work, gone, store, log, add, queue, observe } = parts;
  const { lookAt, statusSeen } = work;
  return {
    ...{ ...settings, lookAt, statusSeen, log, add },
    store: store as EventStore<unknown> | undefined,
    topics: topicsOf(settings),
    gates: queue?.gates,
    goneWitness: gone?.goneWitness,
    refusals: gone?.refusals,
    observe: (event) => observe?.(event),
    serves: (server) => lifecycle.requests.serves(server),
    start: () => {
      if (settings.autoStart && lifecycle.isInBackground) lifecycle.start();
    },
    handlesEvents: () => queue?.handles ?? false,
    drainIfStarted: async () => {
      if (settings.autoStart) await queue?.drain();
    },
  };
}

/** Returns the topics that the handler needs. `stays` needs bookings. A `fallback` may handle any topic, and asks for none. */
function topicsOf({ on, stays }: { readonly on: object; readonly stays?: object | undefined }): Topic[] {
  const prefixes = { bookings: "booking.", listings: "listing.", messages: "message." };
  const keys = [...Object.keys(on), ...(stays ? ["booking"] : [])];
  return topics.filter((topic) => keys.some((key) => `${key}.`.startsWith(prefixes[topic])));
}
