import { consoleLogger, safeLogger } from "../logger.ts";
import type { Booking } from "../models/booking.ts";
import type { Listing } from "../models/listing.ts";
import type { WebhookNotification } from "../models/notification.ts";
import { defaultBackoff, safeBackoff } from "../queue/backoff.ts";
import type { DrainOptions, DrainResult } from "../queue/drain.ts";
import { describeThrown } from "../queue/outcome.ts";
import { Queue } from "../queue/queue.ts";
import { isOwnRef } from "../stores/own.ts";
import type { EventState, EventStore, IntakeStore, NewEvent } from "../stores/event-store.ts";
import { withInside } from "./inside.ts";
import { safeObserve } from "./observe.ts";
import { checkCallOptions, checkOptions, unknownOptions, type WebhookHandlerOptions } from "./options.ts";
import { createDispatcher } from "./processing/dispatch.ts";
import { logTrouble } from "./processing/log.ts";
import { type Processed, type ProcessOptions, processNow } from "./processing/process.ts";
import { createReceiver, type ReceiveRequest, type ReceiveResult } from "./receiving/receive.ts";

/** What a request brings along beside itself. */
export interface ReceiveContext {
  /** Keeps the process alive until the promise settles: Workers' `ctx.waitUntil`, Next.js' `after`. Starts no loop: what is due is drained. */
  readonly waitUntil?: ((promise: Promise<unknown>) => void) | undefined;
}

/** What a web `Request` brings along beside itself. */
export interface FetchContext extends ReceiveContext {
  /** The topic that this endpoint is configured for; comes back as `event.topic`. */
  readonly topic?: string | undefined;
}

/** How the handler is doing. */
export interface Health {
  /**
   * `idle`: processing has not been started (serverless, or `autoStart: false`). `paused`: the platform is out
   * of reach; notifications are still recorded. `stopped`: closed.
   */
  readonly state: "idle" | "running" | "paused" | "stopped";
  readonly counts: Record<EventState, number>;
  /** Age in seconds of the oldest event that waits to be handled; `undefined` where none does. */
  readonly oldestPendingAge: number | undefined;
  /** When this process last took a valid notification. */
  readonly lastReceivedAt: Date | undefined;
}

/** What {@link createWebhookHandler} makes. Its functions need no `this`. */
export interface WebhookHandler {
  /** Takes a notification as a web `Request`: Hono, Next.js, Workers, Bun, Deno, SvelteKit, Remix. Never rejects. */
  fetch(request: Request, context?: FetchContext): Promise<Response>;
  /** Takes a notification in whatever form a framework has it; the adapters call it. Never rejects. */
  receive(request: ReceiveRequest, context?: ReceiveContext): Promise<ReceiveResult>;
  /**
   * Begins to process what is due, by itself, until {@link close}. Twice is safe. It holds no process open: a worker
   * that has no server needs a timer of its own to live on.
   */
  start(): void;
  /**
   * Processes what is due now, each event once: for cron jobs, serverless and tests. Ends when nothing is left,
   * or the platform is out of reach; does not wait for other processes.
   *
   * @throws InvalidArgumentError naming the option that is wrong; what the store throws when it cannot be asked
   */
  drain(options?: DrainOptions): Promise<DrainResult>;
  /**
   * Processes one notification now, touching no store: for the worker of a queue of your own. Takes the
   * notification, or the event that `forwardTo` has sent; each parsed, or as JSON text. There, `previousStatus` is
   * undefined, `changed` true, `dispatch` without effect, and `atomically` absent.
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
  /** How it is doing. @throws what the store throws when it cannot be asked */
  health(): Promise<Health>;
  /**
   * Takes no more notifications (503), lets callbacks finish for `timeout` ms (default 10,000), then aborts
   * their `signal`, waits up to 3 s more, and gives the events back. The store stays open: close it afterwards.
   *
   * @throws InvalidArgumentError where `timeout` is no number of ms; nothing is closed then
   */
  close(options?: { readonly timeout?: number | undefined }): Promise<void>;
  /** Whether an adapter for a process that lives on should call {@link start}. */
  readonly autoStart: boolean;
}

/**
 * Makes the handler of a subscriber's endpoint: it records each notification before it is answered, takes
 * every event once, fetches the booking or listing, and runs the callback for its status.
 *
 * @throws InvalidArgumentError naming each option that is wrong
 * @example
 * ```ts
 * const webhooks = createWebhookHandler({
 *   client,
 *   store: memoryStore(),
 *   verify: sharedSecret({ query: "key", secret: process.env.WEBHOOK_SECRET }),
 *   on: {
 *     "booking.Confirmed": async ({ booking }) => blockNights(stay(booking)),
 *     "booking.Cancelled": async ({ booking }) => releaseNights(stay(booking)),
 *   },
 * });
 * createServer(toNodeHandler(webhooks)).listen(3000);
 * ```
 */
export function createWebhookHandler<B extends Booking, L extends Listing, Tx = never>(
  options: WebhookHandlerOptions<B, L, Tx>,
): WebhookHandler {
  const numbers = checkOptions(options);
  const { client, store, on, dispatch = "every", processing = "background" } = options;
  const logger = safeLogger(options.logger ?? consoleLogger);
  const observe = safeObserve(options.observe, logger);
  for (const name of unknownOptions(options))
    logger.warn(`stayhook: createWebhookHandler has no option ${name}`);
  const background = processing === "background";
  const autoStart = (options.autoStart ?? true) && background;
  let closed = false;
  let lastReceivedAt: Date | undefined;

  const workWith = (transactional: boolean) =>
    createDispatcher<B, L, Tx>({ client, on, dispatch, transactional });
  const events = isIntake(store) ? undefined : store;
  // Where a queue of the user's own takes over, there is no other here.
  const queue =
    events &&
    new Queue<Tx>({
      store: events,
      work: workWith(events.transactional === true),
      policy: { ...numbers, backoff: safeBackoff(options.backoff ?? defaultBackoff) },
      observe: (event) => {
        // What the reconciler writes down for itself is nothing that happens.
        if (event.kind === "done" && isOwnRef(event.ref)) return;
        logTrouble(event, logger);
        observe(event);
      },
      logger,
    });
  const receiver = createReceiver({
    ...numbers,
    verify: options.verify,
    closing: () => closed,
    add: (event) => store.add(event),
    observe,
    logger,
  });

  /** Sees to it that a recorded event is processed; resolves when the request may be answered. */
  async function seeTo(eventId: string, replyBy: number, context: ReceiveContext | undefined) {
    lastReceivedAt = new Date();
    if (!queue) return;
    if (!background) {
      await queue
        .runNow(eventId, replyBy)
        .catch((error) => logger.error(`stayhook: could not process inline (${describeThrown(error)})`));
    }
    if (waits(context)) {
      const failed = (error: unknown) =>
        logger.error(`stayhook: could not process in waitUntil (${describeThrown(error)})`);
      const pushed = queue.push().catch(failed);
      try {
        // With its `this`: the context may be the platform's own.
        context.waitUntil(pushed);
      } catch (error) {
        // It is recorded, which is what the answer says.
        failed(error);
      }
    } else if (background) {
      queue.added(eventId);
    }
  }

  const receive: WebhookHandler["receive"] = async (request, context) => {
    if (autoStart && !waits(context)) queue?.start();
    const { result, recorded, replyBy } = await receiver(request);
    if (recorded) await seeTo(recorded.event.eventId, replyBy, context);
    return result;
  };

  const handler: WebhookHandler = {
    autoStart,
    receive,
    fetch: async (request, context) => {
      const { method, url, headers } = request;
      const body = request.bodyUsed ? readBefore() : request.body;
      const result = await receive({ method, url, headers, body, topic: context?.topic }, context);
      return new Response(result.body, { status: result.status, headers: result.headers });
    },
    start: () => queue?.start(),
    drain: async (drainOptions = {}) => {
      checkCallOptions(drainOptions);
      return (await queue?.drain(drainOptions)) ?? { done: 0, failed: 0 };
    },
    process: async (notification, processOptions = {}) => {
      checkCallOptions(processOptions);
      return processNow(workWith(false), numbers, notification, processOptions);
    },
    health: async () => {
      const state = queue?.state ?? (closed ? "stopped" : "idle");
      const [counts, waiting] = await Promise.all([events?.counts() ?? { ...NONE }, events?.oldestWaiting()]);
      const oldestPendingAge = waiting === undefined ? undefined : waiting / 1000;
      return { state, counts, oldestPendingAge, lastReceivedAt };
    },
    close: async (closeOptions = {}) => {
      checkCallOptions(closeOptions);
      const { timeout = 10_000 } = closeOptions;
      closed = true;
      await queue?.close(timeout);
    },
  };
  return withInside(handler, {
    forwards: !events,
    recordRetention: numbers.recordRetention,
    begin: () => {
      if (autoStart) queue?.start();
    },
    added: (eventId) => queue?.added(eventId),
    handleDue: async () => {
      if (options.autoStart ?? true) await queue?.push();
    },
  });
}

/** A body that is gone: who read it and let go of it leaves a stream that looks empty. */
function readBefore(): ReadableStream {
  const stream = new ReadableStream();
  stream.getReader();
  return stream;
}

/** Whether a request brings along what keeps the process alive; `null` is what some frameworks have for no context. */
function waits(
  context: ReceiveContext | null | undefined,
): context is { readonly waitUntil: NonNullable<ReceiveContext["waitUntil"]> } {
  return typeof context?.waitUntil === "function";
}

function isIntake<Tx>(store: EventStore<Tx> | IntakeStore): store is IntakeStore {
  return (store as Partial<IntakeStore>).intakeOnly === true;
}

const NONE: Record<EventState, number> = { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 };
