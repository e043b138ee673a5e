import type { Log } from "../../logger.ts";
import type { AddAnswer } from "../../stores/base-store.ts";
import type { EventState } from "../../stores/event-states.ts";
import type { NewEvent } from "../../stores/event-store.ts";
import {
  accepted,
  invalid,
  type Observe,
  type ReceiveResult,
  type Refusal,
  Reporter,
  reachable,
  refused,
} from "./answers.ts";
import { RequestBody } from "./body.ts";
import { type ParsedEvent, parseBody, refuse as refuseBody } from "./parse.ts";
import { type ReceiveRequest, type RequestHeaders, type TopicFrom, toHeaders, topicIn } from "./request.ts";
import { type Deadlines, deadlineSource, LATE, now } from "./request-timers.ts";
import type { Verify, VerifyRequest } from "./verify.ts";

/** The longest time between two chunks of a body, ms. */
const BODY_TIMEOUT = 10_000;
/** How long the store may take to record an event, ms. */
const RECORD_TIMEOUT = 10_000;

/** The result of a request. */
export interface Received {
  readonly result: ReceiveResult;
  /** The event of an accepted notification, new or duplicate. It is `undefined` for every other request. */
  readonly recorded?: { readonly event: NewEvent; readonly added: AddAnswer } | undefined;
  /** The latest time for the answer, by `performance.now()`. */
  readonly replyBy: number;
}

export interface ReceiverOptions {
  readonly verify?: Verify | undefined;
  readonly topicFrom?: TopicFrom | undefined;
  readonly answerHealthChecks?: boolean | undefined;
  readonly maxBodyBytes: number;
  /** How long a request may take until its answer, ms. */
  readonly replyWithin: number;
  /** The longest time between two chunks of a body, ms. Default 10,000. */
  readonly bodyTimeout?: number | undefined;
  /** How long the store may take to record an event, ms. Default 10,000. */
  readonly recordTimeout?: number | undefined;
  readonly closing: () => boolean;
  readonly backlog?: Pick<Backlog, "isFull"> | undefined;
  /** Whether the store has the event. */
  readonly isKnown?: ((eventId: string) => Promise<boolean>) | undefined;
  readonly add: (event: NewEvent) => Promise<AddAnswer>;
  /** Must not throw. */
  readonly observe: Observe;
  readonly log: Log;
}

/** Never rejects. `arrivedAt` is a time of `performance.now()`, by default the present time. */
export type Receiver = (request: ReceiveRequest, arrivedAt?: number) => Promise<Received>;

/** A request that is being handled. */
interface Arrival {
  readonly request: ReceiveRequest;
  readonly topic: string | undefined;
  readonly replyBy: number;
  readonly deadlines: Deadlines;
}

/** Makes the function that checks requests and records their events. docs/how-it-works.md lists the checks in order. */
export function createReceiver(options: ReceiverOptions): Receiver {
  const { topicFrom = { query: "topic" }, answerHealthChecks = false } = options;
  const { bodyTimeout = BODY_TIMEOUT, recordTimeout = RECORD_TIMEOUT } = options;
  const reporter = new Reporter(options.observe, options.log);
  const deadlines = deadlineSource();

  return async function receive(request, arrivedAt = now()) {
    const topic = topicOf(request, topicFrom);
    const replyBy = arrivedAt + options.replyWithin;
    const arrival: Arrival = { request, topic, replyBy, deadlines: deadlines() };
    // This deadline keeps the timer running until the answer, because each stop and start of the timer costs time.
    const whole = arrival.deadlines.add(replyBy, () => {});
    try {
      return await handle(arrival);
    } catch (error) {
      return refuse(arrival, "internal", error);
    } finally {
      arrival.deadlines.remove(whole);
    }
  };

  async function handle(arrival: Arrival): Promise<Received> {
    const { request, replyBy, deadlines } = arrival;
    if (options.closing()) return refuse(arrival, "closing");
    const method = request.method.toUpperCase();
    const isCheck = answerHealthChecks && (method === "GET" || method === "HEAD");
    if (method !== "POST" && !isCheck) return refuse(arrival, "method");
    const limits = { maxBodyBytes: options.maxBodyBytes, bodyTimeout, replyBy, deadlines };
    const body = new RequestBody(isCheck ? { ...request, body: undefined } : request, limits);
    const answer = options.verify === undefined || ask(options.verify, arrival, body);
    // Do not wait without need: in the turn in which the request arrives, Node reads the body at less cost.
    const refusal = answer === true && !body.hasFailed ? undefined : await judge(answer, arrival, body);
    if (refusal) return refusal;
    // Do not remove `await`: an async function that returns a promise takes two more microtasks.
    return isCheck ? { result: reachable(), replyBy } : await takeBody(arrival, body);
  }

  /** Returns the answer of `verify`. If `verify` throws, the answer is a promise that rejects. */
  function ask(verify: Verify, arrival: Arrival, body: RequestBody): boolean | Promise<boolean> {
    try {
      return verify(new RequestToVerify(arrival, body));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** @returns `undefined` if `verify` has accepted the request */
  async function judge(
    answer: boolean | Promise<boolean>,
    arrival: Arrival,
    body: RequestBody,
  ): Promise<Received | undefined> {
    let verdict: boolean | typeof LATE = false;
    let thrown: unknown;
    try {
      verdict = await arrival.deadlines.within(answer, arrival.replyBy);
    } catch (error) {
      thrown = error ?? new Error(`verify threw ${error}`);
    }
    // Check the body before the verdict: `verify` may have caught the failure of the body, or failed because of it.
    if (body.hasFailed) return await takeBody(arrival, body);
    if (verdict === true) return undefined;
    body.stop();
    return refuse(arrival, verdict === LATE ? "verify-timeout" : "verify", thrown);
  }

  async function takeBody(arrival: Arrival, body: RequestBody): Promise<Received> {
    const reading = body.read();
    const read = reading instanceof Promise ? await reading : reading;
    if (read.failure === "not-json") return refuseInvalid(arrival, refuseBody("is not JSON").issues);
    if (read.failure === "not-base64")
      return refuseInvalid(arrival, refuseBody("is not base64").issues, read.content);
    if (read.failure !== undefined) return refuse(arrival, read.failure, read.error);
    const parsed = parseBody(read.content, arrival.topic);
    if (!parsed.ok) return refuseInvalid(arrival, parsed.issues, read.content);
    return await record(arrival, parsed);
  }

  async function record(arrival: Arrival, { event, doubts }: ParsedEvent): Promise<Received> {
    const by = Math.min(now() + recordTimeout, arrival.replyBy);
    let added: AddAnswer | typeof LATE;
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
    return { result: accepted(), recorded: { event, added }, replyBy: arrival.replyBy };
  }

  /** A duplicate must get 200 even if the backlog is full. Otherwise, the platform may send it forever. */
  function isKnown(eventId: string, { deadlines }: Arrival, by: number): Promise<boolean | typeof LATE> {
    return deadlines.within(options.isKnown?.(eventId) ?? Promise.resolve(false), by);
  }

  function refuse({ topic, replyBy }: Arrival, reason: Refusal, error?: unknown): Received {
    reporter.refused(reason, topic, error);
    return { result: refused(reason), replyBy };
  }

  function refuseInvalid(
    { topic, replyBy }: Arrival,
    issues: Parameters<typeof invalid>[0],
    body?: string | Uint8Array,
  ): Received {
    reporter.invalid(topic, issues, body);
    return { result: invalid(issues), replyBy };
  }
}

/** Returns `undefined` if the request has no topic, or if its properties throw because the request is broken. */
function topicOf(request: ReceiveRequest, topicFrom: TopicFrom): string | undefined {
  try {
    return request.topic ?? topicIn(request.url, topicFrom);
  } catch {
    return undefined;
  }
}

/**
 * The request that `verify` gets. Makes `Headers` only when `verify` reads them, because a check of the URL does not
 * need them. `headers` is an own property, so that `{ ...request }` copies it. All requests share one getter of
 * `headers`. With a getter for each request, V8 would make a hidden class for each request, which slows garbage
 * collection.
 */
class RequestToVerify implements VerifyRequest {
  static readonly #lazyHeaders: PropertyDescriptor & ThisType<RequestToVerify> = {
    enumerable: true,
    get() {
      this.#made ??= toHeaders(this.#given);
      return this.#made;
    },
  };

  readonly method: string;
  readonly url: string;
  readonly topic: string | undefined;
  declare readonly headers: Headers;
  // Do not write `this.rawBody = () => …`: V8 would allocate that function in the old generation. There, the
  // function would keep the whole request in memory until the next full garbage collection.
  readonly rawBody = (): Promise<Uint8Array> => this.#body.raw();
  readonly #body: RequestBody;
  readonly #given: RequestHeaders;
  #made: Headers | undefined;

  constructor({ request: { method, url, headers }, topic }: Arrival, body: RequestBody) {
    this.method = method;
    this.url = url;
    this.topic = topic;
    this.#body = body;
    this.#given = headers ?? {};
    Object.defineProperty(this, "headers", RequestToVerify.#lazyHeaders);
  }
}

/** How long a count of the waiting events may be reused, ms. */
const FRESH = 1000;
/** The age at which a count is renewed in the background, ms. Requests need not wait for the new count. */
const RENEW = 500;

/** Tells whether more than `maxBacklog` events wait. */
export class Backlog {
  readonly #count: () => Promise<Record<EventState, number>>;
  readonly #most: number;
  #waiting = 0;
  #countedAt = Number.NEGATIVE_INFINITY;
  #counting: Promise<void> | undefined;

  constructor(count: () => Promise<Record<EventState, number>>, most: number) {
    this.#count = count;
    this.#most = most;
  }

  /** Returns a promise only if there is no fresh count. */
  isFull(): boolean | Promise<boolean> {
    if (this.#most === Number.POSITIVE_INFINITY) return false;
    const age = performance.now() - this.#countedAt;
    if (age > RENEW) this.#counting ??= this.#renew();
    return age <= FRESH ? this.#answer : this.#counting!.then(() => this.#answer);
  }

  get #answer(): boolean {
    return this.#waiting > this.#most;
  }

  async #renew(): Promise<void> {
    const startedAt = performance.now();
    try {
      const { pending, processing, retrying } = await this.#count();
      this.#waiting = pending + processing + retrying;
      this.#countedAt = startedAt;
    } catch {
      // Let the request through: the following `add` reports what is wrong with the store.
      this.#waiting = 0;
    } finally {
      this.#counting = undefined;
    }
  }
}
