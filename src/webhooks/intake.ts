import type { Queue } from "../queue/queue.ts";
import type { Parts } from "./parts.ts";
import type { ReceiveRequest, ReceiveResult } from "./receiving/receive.ts";

/** What {@link WebhookHandler.receive} takes beside the request. */
export interface ReceiveContext {
  /** Keeps the process alive until the promise settles: Workers' `ctx.waitUntil`, Next.js' `after`. The handler then starts no loop, and drains what is due. */
  readonly waitUntil?: ((promise: Promise<unknown>) => void) | undefined;
}

/** What {@link WebhookHandler.fetch} takes beside the request. */
export interface FetchContext extends ReceiveContext {
  /** The topic of this endpoint; becomes `event.topic`. Default: the topic in the URL, see `topicFrom`. */
  readonly topic?: string | undefined;
}

type Receive = (request: ReceiveRequest, context?: ReceiveContext) => Promise<ReceiveResult>;

interface Processing {
  /** `false`: inline. */
  readonly background: boolean;
  readonly autoStart: boolean;
  readonly start: () => void;
}

/** Makes the function that takes a request and sees to it that its event is processed. It never rejects. */
export function receiveWith<Tx>(parts: Parts<Tx>, processing: Processing): Receive {
  const { receiver, queue, state, log } = parts;
  return async (request, context) => {
    try {
      if (processing.autoStart && !waits(context)) processing.start();
    } catch (error) {
      log.limited("start", "error", "processing could not start", { error });
    }
    const { result, recorded, replyBy } = await receiver(request);
    if (!recorded) return result;
    state.lastReceivedAt = new Date();
    if (!queue) return result;
    if (!processing.background) await runInline(parts, queue, recorded.event.eventId, replyBy);
    if (waits(context)) pushIn(context, queue, parts);
    else if (processing.background) queue.added();
    return result;
  };
}

/** Takes a web `Request`. */
export async function fetchWith(
  receive: Receive,
  request: Request,
  context: FetchContext | undefined,
): Promise<Response> {
  const { method, url, headers } = request;
  const body = request.bodyUsed ? readBefore() : request.body;
  const result = await receive({ method, url, headers, body, topic: context?.topic }, context);
  return new Response(result.body, { status: result.status, headers: result.headers });
}

/** Resolves when the event has ended, and the event that follows it, or at `replyBy`. Never rejects. */
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

/** Handles what is due while the context keeps the process alive. Never throws. */
function pushIn<Tx>(context: Waiting, queue: Queue<Tx>, { log }: Parts<Tx>): void {
  const failed = (error: unknown) => log.error("events could not be processed in waitUntil", { error });
  const pushed = queue.push().catch(failed);
  try {
    // With its `this`: the context may be the platform's own.
    context.waitUntil(pushed);
  } catch (error) {
    // The event is recorded, as the answer says.
    failed(error);
  }
}

/** A body that was read already. Its reader may have let go of it, and the stream then looks empty. */
function readBefore(): ReadableStream {
  const stream = new ReadableStream();
  stream.getReader();
  return stream;
}

interface Waiting {
  readonly waitUntil: NonNullable<ReceiveContext["waitUntil"]>;
}

/** Some frameworks pass `null` for no context. */
function waits(context: ReceiveContext | null | undefined): context is Waiting {
  return typeof context?.waitUntil === "function";
}
