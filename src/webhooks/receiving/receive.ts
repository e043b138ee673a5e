import type { Logger } from "../../logger.ts";
import type { NewEvent } from "../../stores/event-store.ts";
import { accepted, invalid, type ReceiveResult, type Refusal, refused } from "./answer.ts";
import { type Deadlines, deadlineSource, LATE, now } from "./deadlines.ts";
import { type RequestHeaders, toHeaders } from "./headers.ts";
import { parseBody, refuse as refuseBody } from "./parse.ts";
import { RequestBody } from "./read-body.ts";
import { type Observe, Reporter } from "./report.ts";
import type { Verify, VerifyRequest } from "./verify.ts";

export type { ReceiveResult, Refusal } from "./answer.ts";
export type { RequestHeaders } from "./headers.ts";
export type { ReceiveObservation } from "./report.ts";

/** A request, from any server. */
export interface ReceiveRequest {
  readonly method: string;
  /** Path and query, or the whole URL. Only `verify` looks at it. */
  readonly url: string;
  readonly headers: RequestHeaders;
  /** As it came, or the object that a body parser made of it. A Node stream is an `AsyncIterable`. */
  readonly body?:
    | string
    | Uint8Array
    | ArrayBuffer
    | AsyncIterable<Uint8Array | string>
    | ReadableStream<Uint8Array>
    | object
    | null
    | undefined;
  /** Which topic's endpoint this is; becomes `event.topic`. */
  readonly topic?: string | undefined;
}

/** What came of a request. */
export interface Received {
  readonly result: ReceiveResult;
  /** Where it was answered 200: the event, and whether it was new. */
  readonly recorded?: { readonly event: NewEvent; readonly added: "added" | "duplicate" | "conflict" };
  /** When it must be answered at the latest, by the clock of `performance.now()`. */
  readonly replyBy: number;
}

export interface ReceiverOptions {
  readonly verify?: Verify | undefined;
  readonly maxBodyBytes: number;
  /** ms */
  readonly bodyTimeout: number;
  /** ms */
  readonly recordTimeout: number;
  /** ms */
  readonly replyWithin: number;
  readonly closing: () => boolean;
  readonly add: (event: NewEvent) => Promise<"added" | "duplicate" | "conflict">;
  /** Must not throw. */
  readonly observe: Observe;
  readonly logger: Logger;
}

/** @param arrivedAt - by `performance.now()`; default: now */
export type Receiver = (request: ReceiveRequest, arrivedAt?: number) => Promise<Received>;

type Outcome = Omit<Received, "replyBy">;

/** One request on its way through the steps. */
interface Arrival {
  readonly request: ReceiveRequest;
  readonly replyBy: number;
  readonly deadlines: Deadlines;
}

/** Takes requests in: checks them in the order that docs/how-it-works.md begins with, and records what they bring. */
export function createReceiver(options: ReceiverOptions): Receiver {
  const reporter = new Reporter(options.observe, options.logger);
  const deadlines = deadlineSource();

  return async function receive(request, arrivedAt = now()) {
    const arrival: Arrival = { request, replyBy: arrivedAt + options.replyWithin, deadlines: deadlines() };
    const outcome = await takeIn(arrival).catch((error) => refuse(arrival, "internal", error));
    return { ...outcome, replyBy: arrival.replyBy };
  };

  async function takeIn(arrival: Arrival): Promise<Outcome> {
    const { request } = arrival;
    if (options.closing()) return refuse(arrival, "closing");
    if (request.method.toUpperCase() !== "POST") return refuse(arrival, "method");
    const { maxBodyBytes, bodyTimeout } = options;
    const { replyBy, deadlines } = arrival;
    const limits = { maxBodyBytes, bodyTimeout, replyBy, deadlines };
    const body = new RequestBody(request.body, request.headers ?? {}, limits);
    const refusal = options.verify && (await askVerify(options.verify, arrival, body));
    return refusal ?? takeBody(arrival, body);
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
      verdict = await arrival.deadlines.within(verify(verifyRequest(arrival.request, body)), arrival.replyBy);
    } catch (error) {
      thrown = error ?? new Error(`verify threw ${error}`);
    }
    // First, as verify may have swallowed it, or thrown for it.
    if (body.hasFailed) return takeBody(arrival, body);
    if (verdict === true) return undefined;
    body.stop();
    return refuse(arrival, verdict === LATE ? "verify-timeout" : "verify", thrown);
  }

  async function takeBody(arrival: Arrival, body: RequestBody): Promise<Outcome> {
    const { topic } = arrival.request;
    const read = await body.read();
    if (read.failure === "not-json") return refuseInvalid(refuseBody("is not JSON").issues, topic);
    if (read.failure !== undefined) return refuse(arrival, read.failure, read.error);
    const parsed = parseBody(read.content, topic);
    return parsed.ok ? record(arrival, parsed.event) : refuseInvalid(parsed.issues, topic);
  }

  async function record(arrival: Arrival, event: NewEvent): Promise<Outcome> {
    const by = Math.min(now() + options.recordTimeout, arrival.replyBy);
    let added: "added" | "duplicate" | "conflict" | typeof LATE;
    try {
      added = await arrival.deadlines.within(options.add(event), by);
    } catch (error) {
      return refuse(arrival, "store", error);
    }
    if (added === LATE) return refuse(arrival, "store-timeout");
    reporter.recorded(event, added);
    return { result: accepted(), recorded: { event, added } };
  }

  function refuse({ request }: Arrival, reason: Refusal, error?: unknown): Outcome {
    reporter.refused(reason, topicOf(request), error);
    return { result: refused(reason) };
  }

  function refuseInvalid(issues: Parameters<typeof invalid>[0], topic: string | undefined): Outcome {
    reporter.invalid(topic, issues);
    return { result: invalid(issues) };
  }
}

/** Also of a request that is broken, and throws whatever it is asked for. */
function topicOf(request: ReceiveRequest): string | undefined {
  try {
    return request.topic;
  } catch {
    return undefined;
  }
}

/** `Headers` are made when they are asked for: a secret in the URL needs none. */
function verifyRequest({ method, url, headers, topic }: ReceiveRequest, body: RequestBody): VerifyRequest {
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
