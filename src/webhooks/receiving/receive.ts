import type { Log } from "../../logger.ts";
import type { NewEvent } from "../../stores/event-store.ts";
import { accepted, invalid, type ReceiveResult, type Refusal, reachable, refused } from "./answer.ts";
import type { Backlog } from "./backlog.ts";
import { type Deadlines, deadlineSource, LATE, now } from "./deadlines.ts";
import { type RequestHeaders, toHeaders } from "./headers.ts";
import { type ParsedEvent, parseBody, refuse as refuseBody } from "./parse.ts";
import { RequestBody } from "./read-body.ts";
import { type Observe, Reporter } from "./report.ts";
import { type TopicFrom, topicIn } from "./topic.ts";
import type { Verify, VerifyRequest } from "./verify.ts";

export type { ReceiveResult, Refusal } from "./answer.ts";
export type { RequestHeaders } from "./headers.ts";
export type { ReceiveObservation } from "./report.ts";

/** A request, from any server. */
export interface ReceiveRequest {
  /** The HTTP method. */
  readonly method: string;
  /** Path and query, or the whole URL. `verify` and `topicFrom` read it. */
  readonly url: string;
  /** The headers, as a `Headers` object or by name. */
  readonly headers: RequestHeaders;
  /** The body as it came, or the object that a body parser made of it. A Node stream is an `AsyncIterable`. */
  readonly body?:
    | string
    | Uint8Array
    | ArrayBuffer
    | AsyncIterable<Uint8Array | string>
    | ReadableStream<Uint8Array>
    | object
    | null
    | undefined;
  /** Whether `body` is the base64 of the body's bytes, as AWS Lambda has it. Default `false`. */
  readonly isBase64Encoded?: boolean | undefined;
  /** The topic of this endpoint; becomes `event.topic`. Default: the topic in the URL, see `topicFrom`. */
  readonly topic?: string | undefined;
}

/** The longest silence within a body, ms. */
const BODY_TIMEOUT = 10_000;
/** How long the store may take to record an event, ms. */
const RECORD_TIMEOUT = 10_000;

/** What came of a request. */
export interface Received {
  readonly result: ReceiveResult;
  /** The event, and whether it was new. Absent where the answer is not that it is recorded. */
  readonly recorded?:
    | { readonly event: NewEvent; readonly added: "added" | "duplicate" | "conflict" }
    | undefined;
  /** When it must be answered at the latest, by the clock of `performance.now()`. */
  readonly replyBy: number;
}

export interface ReceiverOptions {
  readonly verify?: Verify | undefined;
  readonly topicFrom?: TopicFrom | undefined;
  readonly answerChecks?: boolean | undefined;
  readonly maxBodyBytes: number;
  /** ms */
  readonly replyWithin: number;
  /** ms */
  readonly bodyTimeout?: number | undefined;
  /** ms */
  readonly recordTimeout?: number | undefined;
  readonly closing: () => boolean;
  readonly backlog?: Pick<Backlog, "isFull"> | undefined;
  /** Whether the store has the event. */
  readonly isKnown?: ((eventId: string) => Promise<boolean>) | undefined;
  readonly add: (event: NewEvent) => Promise<"added" | "duplicate" | "conflict">;
  /** Must not throw. */
  readonly observe: Observe;
  readonly log: Log;
}

/** Never rejects. @param arrivedAt - by `performance.now()`; default: now */
export type Receiver = (request: ReceiveRequest, arrivedAt?: number) => Promise<Received>;

type Outcome = Omit<Received, "replyBy">;

/** One request on its way through the steps. */
interface Arrival {
  readonly request: ReceiveRequest;
  readonly topic: string | undefined;
  readonly replyBy: number;
  readonly deadlines: Deadlines;
}

/** Takes requests in: checks them in the order that docs/how-it-works.md begins with, and records their events. */
export function createReceiver(options: ReceiverOptions): Receiver {
  const { topicFrom = { query: "topic" }, answerChecks = false } = options;
  const { bodyTimeout = BODY_TIMEOUT, recordTimeout = RECORD_TIMEOUT } = options;
  const reporter = new Reporter(options.observe, options.log);
  const deadlines = deadlineSource();

  return async function receive(request, arrivedAt = now()) {
    const topic = topicOf(request, topicFrom);
    const replyBy = arrivedAt + options.replyWithin;
    const arrival: Arrival = { request, topic, replyBy, deadlines: deadlines() };
    try {
      const { result, recorded } = await takeIn(arrival);
      return { result, recorded, replyBy };
    } catch (error) {
      return { ...refuse(arrival, "internal", error), replyBy };
    }
  };

  async function takeIn(arrival: Arrival): Promise<Outcome> {
    const { request, replyBy, deadlines } = arrival;
    if (options.closing()) return refuse(arrival, "closing");
    const method = request.method.toUpperCase();
    const isCheck = answerChecks && (method === "GET" || method === "HEAD");
    if (method !== "POST" && !isCheck) return refuse(arrival, "method");
    const limits = { maxBodyBytes: options.maxBodyBytes, bodyTimeout, replyBy, deadlines };
    const body = new RequestBody(isCheck ? { ...request, body: undefined } : request, limits);
    const refusal = options.verify && (await askVerify(options.verify, arrival, body));
    if (refusal) return refusal;
    // With `await`, as everywhere on this way: to return a promise takes two turns more.
    return isCheck ? { result: reachable() } : await takeBody(arrival, body);
  }

  /** @returns nothing where the request may go on */
  async function askVerify(
    verify: Verify,
    arrival: Arrival,
    body: RequestBody,
  ): Promise<Outcome | undefined> {
    let verdict: boolean | typeof LATE = false;
    let thrown: unknown;
    try {
      const answer = verify(verifyRequest(arrival, body));
      verdict = answer === true ? true : await arrival.deadlines.within(answer, arrival.replyBy);
    } catch (error) {
      thrown = error ?? new Error(`verify threw ${error}`);
    }
    // This goes first: verify may have caught that the body failed, or thrown because of it.
    if (body.hasFailed) return await takeBody(arrival, body);
    if (verdict === true) return undefined;
    body.stop();
    return refuse(arrival, verdict === LATE ? "verify-timeout" : "verify", thrown);
  }

  async function takeBody(arrival: Arrival, body: RequestBody): Promise<Outcome> {
    const read = await body.read();
    if (read.failure === "not-json") return refuseInvalid(arrival, refuseBody("is not JSON").issues);
    if (read.failure === "not-base64") return refuseInvalid(arrival, refuseBody("is not base64").issues);
    if (read.failure !== undefined) return refuse(arrival, read.failure, read.error);
    const parsed = parseBody(read.content, arrival.topic);
    if (!parsed.ok) return refuseInvalid(arrival, parsed.issues, read.content);
    return await record(arrival, parsed);
  }

  async function record(arrival: Arrival, { event, doubts }: ParsedEvent): Promise<Outcome> {
    const by = Math.min(now() + recordTimeout, arrival.replyBy);
    let added: "added" | "duplicate" | "conflict" | typeof LATE;
    try {
      const full = options.backlog?.isFull() ?? false;
      const isFull = typeof full === "boolean" ? full : await arrival.deadlines.within(full, by);
      if (isFull === true && (await isKnown(event.eventId, arrival, by)) !== true)
        return refuse(arrival, "backlog");
      added = isFull === LATE ? LATE : await arrival.deadlines.within(options.add(event), by);
    } catch (error) {
      return refuse(arrival, "store", error);
    }
    if (added === LATE) return refuse(arrival, "store-timeout");
    reporter.recorded(event, added, doubts);
    return { result: accepted(), recorded: { event, added } };
  }

  /** The platform repeats an event until it is answered 200, and a known one adds nothing to the backlog. */
  function isKnown(eventId: string, { deadlines }: Arrival, by: number): Promise<boolean | typeof LATE> {
    return deadlines.within(options.isKnown?.(eventId) ?? Promise.resolve(false), by);
  }

  function refuse({ topic }: Arrival, reason: Refusal, error?: unknown): Outcome {
    reporter.refused(reason, topic, error);
    return { result: refused(reason) };
  }

  function refuseInvalid(
    { topic }: Arrival,
    issues: Parameters<typeof invalid>[0],
    body?: string | Uint8Array,
  ): Outcome {
    reporter.invalid(topic, issues, body);
    return { result: invalid(issues) };
  }
}

/** Also of a broken request that throws whatever it is asked for. */
function topicOf(request: ReceiveRequest, topicFrom: TopicFrom): string | undefined {
  try {
    return request.topic ?? topicIn(request.url, topicFrom);
  } catch {
    return undefined;
  }
}

/** Makes `Headers` when they are asked for: a secret in the URL needs none. */
function verifyRequest({ request, topic }: Arrival, body: RequestBody): VerifyRequest {
  const { method, url, headers } = request;
  let made: Headers | undefined;
  return {
    method,
    url,
    topic,
    get headers() {
      made ??= toHeaders(headers ?? {});
      return made;
    },
    rawBody: () => body.raw(),
  };
}
