// What `fetch` and `receive` take beside the request, and what `waitUntil` keeps alive.

import { callersContext, type RunInContext } from "../async-context.ts";
import type { Log } from "../logger.ts";
import type { Queue } from "../queue/queue.ts";
import type { NewEvent } from "../stores/stored-event.ts";
import { followUpId } from "./processing/handle-event.ts";
import type { ReceiveResult } from "./receiving/answers.ts";
import { isNodeStream } from "./receiving/body-stream.ts";
import { findBody } from "./receiving/found-body.ts";
import type { ReceiveRequest } from "./receiving/request.ts";

/** The second argument of `webhooks.receive`. */
export interface ReceiveContext {
  /**
   * The runtime's function that keeps the process alive until a promise settles, such as `ctx.waitUntil` of Workers
   * or `after` of Next.js. The handler passes a promise that settles when the due events are handled. With
   * `waitUntil`, the handler starts no background loop.
   */
  readonly waitUntil?: ((promise: Promise<unknown>) => void) | undefined;
}

/** The second argument of `webhooks.fetch`. */
export interface FetchContext extends ReceiveContext {
  /**
   * The topic of this endpoint, which becomes `event.topic`: `bookings`, `listings` or `messages`. Default: that of
   * the URL's parameter `topic`.
   */
  readonly topic?: string | undefined;
  /** The account of this request, in a handler with `accountFrom`. Default: the account that `accountFrom` finds. */
  readonly account?: string | undefined;
}

export interface WaitingContext {
  readonly waitUntil: NonNullable<ReceiveContext["waitUntil"]>;
}

/** Accepts `null`, because some frameworks pass `null` if they have no context. */
export function hasWaitUntil(context: ReceiveContext | null | undefined): context is WaitingContext {
  return typeof context?.waitUntil === "function";
}

/** Answers a web `Request`. Never rejects. */
export async function fetchWith(
  receive: (request: ReceiveRequest, context?: ReceiveContext) => Promise<ReceiveResult>,
  request: Request,
  context: FetchContext | undefined,
): Promise<Response> {
  const given = Object(request) as Request;
  const { method, url, headers } = given;
  // Somebody may pass Node's request, which is the stream of its body.
  const found = isNodeStream(given) ? findBody(given, given) : given.body;
  const body = given.bodyUsed ? lockedStream() : found;
  const result = await receive(
    { method, url, headers, body, topic: context?.topic, account: context?.account },
    context,
  );
  return new Response(result.body, { status: result.status, headers: result.headers });
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

/**
 * The async contexts of the requests that wait until their event is handled. An attempt at such an event runs in the
 * context of its own request, because the drain of one request claims the events of others, too.
 */
export class WaitingRequests {
  readonly #contexts = new Map<string, RunInContext>();

  /** Keeps the caller's context for the events that are passed to `expect`, until `end` is called. */
  begin(): { readonly expect: (event: NewEvent) => void; readonly end: () => void } {
    const context = callersContext();
    const kept: string[] = [];
    return {
      expect: ({ eventId }) => {
        if (context === undefined || this.#contexts.has(eventId)) return;
        for (const id of [eventId, followUpId(eventId)]) {
          this.#contexts.set(id, context);
          kept.push(id);
        }
      },
      end: () => {
        for (const id of kept) this.#contexts.delete(id);
      },
    };
  }

  /** Returns the context of the request that waits for an event. */
  contextOf(eventId: string): RunInContext | undefined {
    return this.#contexts.get(eventId);
  }
}

/**
 * Handles the due events while the context keeps the process alive. Never throws.
 *
 * @returns a promise that resolves when they are handled
 */
export function drainInContext<Tx>(context: WaitingContext, queue: Queue<Tx>, log: Log): Promise<unknown> {
  const failed = (error: unknown) => log.error("events could not be processed in waitUntil", { error });
  const pushed = queue.drain().catch(failed);
  try {
    // Call `waitUntil` as a method: in some runtimes, the function fails without its `this`.
    context.waitUntil(pushed);
  } catch (error) {
    // Do not throw: the event is recorded, so the answer must be 200.
    failed(error);
  }
  return pushed;
}
