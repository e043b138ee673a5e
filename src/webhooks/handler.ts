import type { WebhookNotification } from "../models/notification.ts";
import type { Booking, Listing } from "../models/records.ts";
import type { DrainOptions, DrainResult } from "../queue/drain.ts";
import type { Queue } from "../queue/queue.ts";
import type { EventStore, NewEvent } from "../stores/event-store.ts";
import type { IntakeStore } from "../stores/forward.ts";
import { assemble, type Parts } from "./assemble.ts";
import { type Internals, withInternals } from "./internals.ts";
import { type Health, healthOf } from "./monitoring.ts";
import { checkCallOptions, type WebhookHandlerOptions } from "./options.ts";
import { followUpId } from "./processing/handle-event.ts";
import { type Processed, type ProcessOptions, processNow } from "./processing/process-now.ts";
import type { ReceiveResult } from "./receiving/answers.ts";
import type { Received } from "./receiving/receive.ts";
import type { ReceiveRequest } from "./receiving/request.ts";

export type { AvailableHealth, Health, UnavailableHealth } from "./monitoring.ts";

/**
 * The handler that {@link createWebhookHandler} makes. For node:http and Express, pass it to `toNodeHandler` of
 * `stayhook/node`. Other adapters are `toFastifyPlugin` of `stayhook/fastify`, `toKoaMiddleware` of `stayhook/koa`
 * and `toLambdaHandler` of `stayhook/lambda`. With other frameworks, call `fetch`. The methods work without `this`.
 */
export interface WebhookHandler {
  /** Takes a web `Request`, for Hono, Next.js, Workers, Bun, Deno, SvelteKit, Remix and others. Never rejects. */
  fetch(request: Request, context?: FetchContext): Promise<Response>;
  /** Takes a request as a plain object. The adapters for frameworks call this method. Never rejects. */
  receive(request: ReceiveRequest, context?: ReceiveContext): Promise<ReceiveResult>;
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
   * @throws the error of the store
   */
  ready(): Promise<void>;
  /**
   * Answers 503 to further requests, and waits up to `timeout` ms for running callbacks. Then aborts the `signal` of
   * callbacks that still run, waits for them 3 s at most, and releases their events to other processes. Close the
   * handler before the store.
   *
   * @throws InvalidArgumentError if `timeout` is not a number of ms. The handler then stays open
   * @example
   * ```ts
   * server.close();
   * await reconciler.close();
   * await webhooks.close();
   * await store.close();
   * ```
   */
  close(options?: {
    /** How long callbacks may take to finish, ms. Default 10,000. */
    readonly timeout?: number | undefined;
  }): Promise<void>;
  /** Whether an adapter should call `start`. */
  readonly autoStart: boolean;
  /**
   * Processes due events in the background, until {@link close} is called. A second call does nothing. The background
   * work does not keep the process alive. If nothing else keeps the process alive, add a timer.
   */
  start(): void;
  /**
   * Makes one attempt at each event that is due now, for cron jobs, serverless and tests. Ends when no event is due, or
   * when the platform is out of reach. Does not wait for attempts of other processes.
   *
   * @throws the error of the store, or an InvalidArgumentError naming the option that is wrong
   */
  drain(options?: DrainOptions): Promise<DrainResult>;
  /** Reports the health of the handler. Never rejects: if the store does not answer, `state` is `unavailable`. */
  health(): Promise<Health>;
}

/** The handler that {@link createWebhookHandler} makes for a `forwardTo` store. Your own queue processes the events. */
export interface ForwardingHandler extends Omit<WebhookHandler, "start" | "drain" | "health"> {}

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
>(
  options: WebhookHandlerOptions<B, L, Tx> & { readonly store: S },
): [S] extends [IntakeStore] ? ForwardingHandler : WebhookHandler {
  const parts = assemble(options);
  const { queue, store, state, log, silence, telemetry, work, numbers } = parts;
  const background = options.processing !== "inline";
  const autoStart = (options.autoStart ?? true) && background;
  const start = (): void => {
    queue?.start();
    if (!state.closed) silence.start();
  };
  const receive = receiveWith(parts, { background, autoStart, start });
  const handler: WebhookHandler = {
    autoStart,
    receive,
    fetch: (request, context) => fetchWith(receive, request, context),
    start,
    drain: async (drainOptions) => {
      checkCallOptions("drain", drainOptions);
      const result = await queue?.drain(drainOptions ?? {});
      await silence.check();
      return result ?? { done: 0, failed: 0 };
    },
    process: async (notification, processOptions) => {
      checkCallOptions("process", processOptions);
      return processNow(
        { ...numbers, work, log, process: telemetry.process },
        notification,
        processOptions ?? {},
      );
    },
    ready: async () => void (await store?.nextDue()),
    health: () => healthOf({ store, queue, ...state }),
    close: async (closeOptions) => {
      checkCallOptions("close", closeOptions);
      state.closed = true;
      silence.stop();
      await queue?.close(closeOptions?.timeout ?? 10_000);
      telemetry.close();
      log.close();
    },
  };
  const internals: Internals = {
    ...{ client: options.client, store, snapshotOf: parts.snapshotOf, observe: parts.observe, log },
    snapshotRetention: numbers.snapshotRetention,
    start: () => {
      if (autoStart) start();
    },
    add: async (event) => {
      const added = await telemetry.add(event, (traced) => options.store.add(traced));
      if (added === "added") queue?.wake();
      return added;
    },
    drainIfStarted: async () => {
      if (options.autoStart ?? true) await queue?.push();
    },
  };
  return withInternals(handler, internals);
}

/** The second argument of {@link WebhookHandler.receive}. */
export interface ReceiveContext {
  /**
   * The runtime's function that keeps the process alive until a promise settles, such as `ctx.waitUntil` of Workers
   * or `after` of Next.js. The handler passes a promise that settles when the due events are handled. With
   * `waitUntil`, the handler starts no background loop.
   */
  readonly waitUntil?: ((promise: Promise<unknown>) => void) | undefined;
}

/** The second argument of {@link WebhookHandler.fetch}. */
export interface FetchContext extends ReceiveContext {
  /** The topic of this endpoint, which becomes `event.topic`. Default: the topic that `topicFrom` finds in the URL. */
  readonly topic?: string | undefined;
}

type Receive = (request: ReceiveRequest, context?: ReceiveContext) => Promise<ReceiveResult>;

interface Processing {
  /** `false` if the option `processing` is `inline`. */
  readonly background: boolean;
  readonly autoStart: boolean;
  readonly start: () => void;
}

/** Makes the handler's `receive`, which records events and starts their processing. `receive` never rejects. */
function receiveWith<Tx>(parts: Parts<Tx>, processing: Processing): Receive {
  const { receiver, queue, state, log } = parts;
  return async (request, context) => {
    try {
      if (processing.autoStart && !hasWaitUntil(context)) processing.start();
    } catch (error) {
      log.limited("start", "error", "processing could not start", { error });
    }
    const { result, recorded, replyBy } = await receiver(request);
    if (!recorded) return result;
    state.lastReceivedAt = new Date();
    if (!queue) return result;
    if (!processing.background) await runInline(parts, queue, recorded, replyBy);
    if (hasWaitUntil(context)) drainInContext(context, queue, parts);
    else if (processing.background) queue.wake();
    return result;
  };
}

async function fetchWith(
  receive: Receive,
  request: Request,
  context: FetchContext | undefined,
): Promise<Response> {
  const { method, url, headers } = request;
  const body = request.bodyUsed ? lockedStream() : request.body;
  const result = await receive({ method, url, headers, body, topic: context?.topic }, context);
  return new Response(result.body, { status: result.status, headers: result.headers });
}

/** Handles the event. Stops waiting for it at `replyBy`. Never rejects. */
async function runInline<Tx>(
  { log }: Parts<Tx>,
  queue: Queue<Tx>,
  { event: { eventId }, added }: NonNullable<Received["recorded"]>,
  replyBy: number,
): Promise<void> {
  try {
    await queue.runNow(eventId, replyBy);
    // The first delivery may have ended before its follow-up event was handled.
    if (added === "duplicate") await queue.runNow(followUpId(eventId), replyBy);
  } catch (error) {
    log.error(`event ${eventId} could not be processed inline`, { error, eventId });
  }
}

/** Handles the due events while the context keeps the process alive. Never throws. */
function drainInContext<Tx>(context: WaitingContext, queue: Queue<Tx>, { log }: Parts<Tx>): void {
  const failed = (error: unknown) => log.error("events could not be processed in waitUntil", { error });
  const pushed = queue.push().catch(failed);
  try {
    // Call `waitUntil` as a method: in some runtimes, the function fails without its `this`.
    context.waitUntil(pushed);
  } catch (error) {
    // Do not throw: the event is recorded, so the answer must be 200.
    failed(error);
  }
}

/**
 * Returns a locked stream, which stands for a body that was already read. `request.body` does not suffice: in some
 * runtimes, it looks like an unread, empty stream.
 */
function lockedStream(): ReadableStream {
  const stream = new ReadableStream();
  stream.getReader();
  return stream;
}

interface WaitingContext {
  readonly waitUntil: NonNullable<ReceiveContext["waitUntil"]>;
}

/** Accepts `null`, because some frameworks pass `null` if they have no context. */
function hasWaitUntil(context: ReceiveContext | null | undefined): context is WaitingContext {
  return typeof context?.waitUntil === "function";
}
