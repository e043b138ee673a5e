import type { WebhookNotification } from "../models/notification.ts";
import type { Booking, Listing } from "../models/records.ts";
import type { DrainOptions, DrainResult } from "../queue/claiming.ts";
import type { Queue } from "../queue/queue.ts";
import type { EventStore, NewEvent } from "../stores/event-store.ts";
import type { IntakeStore } from "../stores/forward.ts";
import { assemble, type Parts } from "./assemble.ts";
import { type Internals, withInternals } from "./internals.ts";
import { type Health, healthOf } from "./monitoring.ts";
import { checkCallOptions, type WebhookHandlerOptions } from "./options.ts";
import { type Processed, type ProcessOptions, processNow } from "./processing/process-now.ts";
import type { ReceiveResult } from "./receiving/answers.ts";
import type { ReceiveRequest } from "./receiving/request.ts";

export type { AvailableHealth, Health, UnavailableHealth } from "./monitoring.ts";

/**
 * The handler that {@link createWebhookHandler} makes. Pass it to `toNodeHandler` of `stayhook/node` for node:http and
 * Express, to the plugin of `stayhook/fastify`, to the middleware of `stayhook/koa`, or to the handler of
 * `stayhook/lambda`. Every other framework calls its `fetch`. Its functions need no `this`.
 */
export interface WebhookHandler {
  /** Takes a notification as a web `Request`: Hono, Next.js, Workers, Bun, Deno, SvelteKit, Remix. Never rejects. */
  fetch(request: Request, context?: FetchContext): Promise<Response>;
  /** Takes a notification in the form that a framework has it in. The adapters call it. Never rejects. */
  receive(request: ReceiveRequest, context?: ReceiveContext): Promise<ReceiveResult>;
  /**
   * Processes one notification now, without a store: for the worker of a queue of your own. Takes the notification,
   * or the event that `forwardTo` sent, parsed or as JSON text. Such an event has `previous: undefined` and
   * `changed: true`, `dispatch` has no effect, and `atomically` throws.
   *
   * @throws ProcessingError saying whether and when to try again
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
   * Asks the store something, which also makes its tables: for apps that should fail at start rather than answer 503.
   *
   * @throws what the store throws when it cannot be asked
   */
  ready(): Promise<void>;
  /**
   * Takes no more notifications (503), lets callbacks finish for `timeout` ms (default 10,000), then aborts their
   * `signal`, waits up to 3 s more, and gives the events back. Close the store afterwards.
   *
   * @throws InvalidArgumentError where `timeout` is not a number of ms; nothing is closed then
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
  /** Whether an adapter should start the processing. */
  readonly autoStart: boolean;
  /**
   * Processes due events by itself until {@link close}. A second call does nothing. Workers do not keep the process
   * alive: add a timer if nothing else does.
   */
  start(): void;
  /**
   * Processes the events that are due now, each once: for cron jobs, serverless and tests. Ends when nothing is due,
   * or when the platform is out of reach. Does not wait for other processes.
   *
   * @throws InvalidArgumentError naming the option that is wrong; what the store throws when it cannot be asked
   */
  drain(options?: DrainOptions): Promise<DrainResult>;
  /** Tells how the handler is doing. Never rejects: where the store cannot be asked, `state` is `unavailable`. */
  health(): Promise<Health>;
}

/** The handler that {@link createWebhookHandler} makes for `forwardTo`, where your own queue does the processing. */
export interface ForwardingHandler extends Omit<WebhookHandler, "start" | "drain" | "health"> {}

type AnyStore<Tx> = EventStore<Tx> | IntakeStore;

/**
 * Makes the handler of a subscriber's endpoint. It records each notification before it answers, handles each event
 * once, reads the booking or listing, and runs the callback for its status.
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
 *     "booking.Confirmed": async ({ booking }) => blockNights(stay(booking)),
 *     "booking.Cancelled": async ({ booking }) => releaseNights(stay(booking)),
 *   },
 * });
 * createServer(toNodeHandler(webhooks)).listen(3000);
 * ```
 */
// Not an overload: TypeScript would report a misspelled option at the call, with an error for each overload.
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
    recordRetention: numbers.recordRetention,
    start: () => {
      if (autoStart) start();
    },
    add: async (event) => {
      const added = await telemetry.add(event, (traced) => options.store.add(traced));
      if (added === "added") queue?.added();
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
   * Keeps the process alive until the promise settles, such as Workers' `ctx.waitUntil` and Next.js' `after`. The handler
   * then starts no loop. It passes a promise for the handling of all due events.
   */
  readonly waitUntil?: ((promise: Promise<unknown>) => void) | undefined;
}

/** The second argument of {@link WebhookHandler.fetch}. */
export interface FetchContext extends ReceiveContext {
  /** The topic of this endpoint, which becomes `event.topic`. Default: the topic in the URL, see `topicFrom`. */
  readonly topic?: string | undefined;
}

type Receive = (request: ReceiveRequest, context?: ReceiveContext) => Promise<ReceiveResult>;

interface Processing {
  /** `false`: inline. */
  readonly background: boolean;
  readonly autoStart: boolean;
  readonly start: () => void;
}

/** Makes the handler's `receive`: it records an event, then has it processed. It never rejects. */
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
    if (!processing.background) await runInline(parts, queue, recorded.event.eventId, replyBy);
    if (hasWaitUntil(context)) drainInContext(context, queue, parts);
    else if (processing.background) queue.added();
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

/** Resolves when the event and its follow-up event have ended, or at `replyBy`. Never rejects. */
async function runInline<Tx>(
  { followUps, log }: Parts<Tx>,
  queue: Queue<Tx>,
  eventId: string,
  replyBy: number,
): Promise<void> {
  followUps.set(eventId, undefined);
  try {
    await queue.runNow(eventId, replyBy);
    const followUp = followUps.get(eventId);
    if (followUp !== undefined) await queue.runNow(followUp, replyBy);
  } catch (error) {
    log.error(`event ${eventId} could not be processed inline`, { error, eventId });
  } finally {
    followUps.delete(eventId);
  }
}

/** Handles the due events while the context keeps the process alive. Never throws. */
function drainInContext<Tx>(context: WaitingContext, queue: Queue<Tx>, { log }: Parts<Tx>): void {
  const failed = (error: unknown) => log.error("events could not be processed in waitUntil", { error });
  const pushed = queue.push().catch(failed);
  try {
    // Called as a method, because the context may be the runtime's own object.
    context.waitUntil(pushed);
  } catch (error) {
    // Not thrown: the event is recorded, so the answer must be 200.
    failed(error);
  }
}

/** Stands for a body that was read already. The real stream may look empty, because its reader was released. */
function lockedStream(): ReadableStream {
  const stream = new ReadableStream();
  stream.getReader();
  return stream;
}

interface WaitingContext {
  readonly waitUntil: NonNullable<ReceiveContext["waitUntil"]>;
}

/** Some frameworks pass `null` for no context. */
function hasWaitUntil(context: ReceiveContext | null | undefined): context is WaitingContext {
  return typeof context?.waitUntil === "function";
}
