import { StayhookError } from "../../errors.ts";
import type { Log } from "../../logger.ts";
import { topicOf, topics } from "../../models/topics.ts";
import type { AddAnswer } from "../../stores/store-steps.ts";
import type { NewEvent } from "../../stores/stored-event.ts";
import type { StoreCounts } from "../store-counts.ts";
import { type AccountFrom, accountIn } from "./account.ts";
import { isUnavailable } from "./account-keys.ts";
import { ACCEPTED, type ReceiveObservation, type ReceiveResult, Refused } from "./answers.ts";
import { RequestBody } from "./body.ts";
import { deadlineSource, type Limited, now } from "./deadlines.ts";
import { logDoubts, parseBody, type ValidBody } from "./parse.ts";
import { type ReceiveRequest, type RequestHeaders, toHeaders, topicNameIn } from "./request.ts";
import type { Verify, VerifyRequest } from "./verify.ts";

const NO_REQUEST =
  "a value that is no request was passed. `fetch` takes a web Request, `receive` an object with method, url, headers and " +
  "body, and the listener of toNodeHandler takes Node's request";

/** How many unknown topics are told. */
const MOST_UNKNOWN = 10;

/** How long the body, `verify` and the store may take together, ms. */
const LIMIT = 10_000;

export interface Received {
  readonly result: ReceiveResult;
  /** The event of an accepted notification, new or duplicate. It is `undefined` for every other request. */
  readonly recorded?: { readonly event: NewEvent; readonly added: AddAnswer } | undefined;
  /** The latest time for the answer, by `performance.now()`. */
  readonly replyBy: number;
}

export interface ReceiverOptions {
  readonly verify: Verify | undefined;
  readonly accountFrom?: AccountFrom | undefined;
  readonly maxBodyBytes: number;
  readonly maxBacklog: number;
  /** How long a request may take until its answer, ms. */
  readonly replyWithin: number;
  /** The counts of the store. They are `undefined` if `forwardTo` passes the events to a queue of the user. */
  readonly counts: Pick<StoreCounts, "addBelow"> | undefined;
  /** Whether the store has the event. */
  readonly isKnown: (eventId: string) => Promise<boolean>;
  readonly add: (event: NewEvent) => Promise<AddAnswer>;
  /** Must not throw. Without it, no observation is made. */
  readonly observe: ((event: ReceiveObservation) => void) | undefined;
  readonly log: Log;
}

/** Checks requests, and records their events. docs/how-it-works.md lists the checks in order. */
export class Receiver {
  readonly #options: ReceiverOptions;
  readonly #deadlines: ReturnType<typeof deadlineSource>;
  /** The unknown topics that were told, in lower case. */
  readonly #unknownTopics = new Set<string>();

  constructor(options: ReceiverOptions) {
    this.#options = options;
    this.#deadlines = deadlineSource(Math.min(LIMIT, options.replyWithin));
  }

  /**
   * Never rejects.
   *
   * @param onEvent - gets the event of a valid notification before it is recorded
   */
  async receive(request: ReceiveRequest, onEvent?: (event: NewEvent) => void): Promise<Received> {
    const { log, observe, replyWithin } = this.#options;
    const pending = this.#deadlines();
    const arrivedAt = now();
    const arrival = new Arrival(arrivedAt + pending.limit);
    const replyBy = arrivedAt + replyWithin;
    pending.add(arrival);
    try {
      const parsed = await this.#read(request, arrival);
      const { event } = parsed;
      onEvent?.(event);
      const added = await this.#record(event, arrival);
      if (added === "conflict") logConflict(event, log);
      logDoubts(event, parsed.doubts, log);
      const { eventId, ref, topic } = event;
      observe?.({ kind: added === "added" ? "received" : "duplicate", eventId, ref, topic });
      return { result: ACCEPTED, recorded: { event, added }, replyBy };
    } catch (thrown) {
      const refused = arrival.refusal(thrown);
      refused.log(log, arrival.account);
      observe?.(refused.observation(arrival.topic, arrival.account));
      return { result: refused.answer, replyBy };
    } finally {
      pending.remove(arrival);
      arrival.body?.stop("aborted");
    }
  }

  /** Returns the event of a notification. */
  async #read(request: ReceiveRequest, arrival: Arrival): Promise<ValidBody> {
    const { verify, maxBodyBytes } = this.#options;
    if (typeof request?.method !== "string") throw new StayhookError(NO_REQUEST);
    const name = request.topic ?? topicNameIn(request.url);
    const topic = topicOf(name);
    arrival.topic = topic;
    if (request.method.toUpperCase() !== "POST") throw new Refused("method");
    const account = this.#accountOf(request, arrival);

    const body = new RequestBody(request, maxBodyBytes);
    arrival.body = body;
    if (verify) {
      arrival.step = "verify";
      const verdict = verify(new RequestToVerify(request, topic, account, body));
      // Do not wait without need: in the turn in which the request arrives, Node reads the body at less cost.
      const accepted = verdict === true || (await arrival.within(Promise.resolve(verdict)));
      if (accepted !== true) throw new Refused("verify");
    }
    if (name !== undefined && topic === undefined) this.#tellUnknown(String(name));

    arrival.step = "internal";
    const reading = body.read();
    const content = reading instanceof Promise ? await reading : reading;
    const parsed = parseBody(content, topic, account);
    if (!parsed.ok) throw body.refusalOf(content, parsed);
    return parsed;
  }

  /** Ignores an unknown topic, because a refused notification may be lost. Without it, a message is read as a booking. */
  #tellUnknown(name: string): void {
    // What follows the first word may be a secret: `?topic=bookings?key=…`.
    const [word] = /^[\w-]{0,40}/.exec(name)!;
    const shown = word === name ? word : `${word}…`;
    const known = shown.toLowerCase();
    if (this.#unknownTopics.has(known) || this.#unknownTopics.size >= MOST_UNKNOWN) return;
    this.#unknownTopics.add(known);
    this.#options.log.warn(
      `the topic "${shown}" of an endpoint is unknown, so the handler ignores it. The topics are ${topics.join(", ")}. Correct the endpoint's URL`,
    );
  }

  #accountOf(request: ReceiveRequest, arrival: Arrival): string | undefined {
    const { accountFrom } = this.#options;
    if (accountFrom !== undefined) {
      arrival.step = "account-failed";
      arrival.account = accountIn(request, accountFrom);
    } else if (request.account !== undefined) {
      throw new StayhookError("a request has an account, but the handler has no option accountFrom");
    }
    arrival.step = "internal";
    return arrival.account;
  }

  async #record(event: NewEvent, arrival: Arrival): Promise<AddAnswer> {
    const { add, counts, isKnown, maxBacklog } = this.#options;
    arrival.step = "store";
    // A request that is already answered must not fill the store.
    const tryToAdd = () => (arrival.isOver ? Promise.reject(new Refused("store-timeout")) : add(event));
    const added = await arrival.within(counts ? counts.addBelow(maxBacklog, tryToAdd) : tryToAdd());
    if (added !== "full") return added;
    // A duplicate must get 200 even if the backlog is full. Otherwise, the platform may send it forever.
    if (!(await arrival.within(isKnown(event.eventId)))) throw new Refused("backlog");
    return arrival.within(tryToAdd());
  }
}

/** A request between its arrival and its answer. One time limit covers all of its steps. */
class Arrival implements Limited {
  readonly at: number;
  /** The user's code or store that a thrown error comes from. `internal`: neither. */
  step: "internal" | "account-failed" | "verify" | "store" = "internal";
  topic: string | undefined;
  account: string | undefined;
  body: RequestBody | undefined;
  /** Whether the time limit has passed, so that the request is answered. */
  isOver = false;
  #reject: ((refused: Refused) => void) | undefined;

  constructor(at: number) {
    this.at = at;
  }

  /** Settles like `work`. If the time limit passes first, rejects with a refusal. */
  within<T>(work: PromiseLike<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      Promise.resolve(work).then(resolve, reject);
    });
  }

  /** Blames the body if it is still being read, because `verify` may only be waiting for it. */
  late(): void {
    this.isOver = true;
    this.body?.stop("body-timeout");
    this.#reject?.(new Refused(this.step === "store" ? "store-timeout" : "verify-timeout"));
  }

  /**
   * Returns the refusal for what a step threw. The refusal of the body counts first, because `verify` may throw it, or
   * catch it.
   */
  refusal(thrown: unknown): Refused {
    if (this.body?.refused) return this.body.refused;
    if (thrown instanceof Refused) return thrown;
    if (isUnavailable(thrown)) return new Refused("secret-failed", thrown.cause);
    return new Refused(
      this.step,
      thrown ?? (this.step === "verify" ? new Error(`verify threw ${thrown}`) : thrown),
    );
  }
}

function logConflict({ eventId, ref }: NewEvent, log: Log): void {
  const problem =
    "was delivered before with a different booking or listing. The handler ignores the new delivery";
  log.limited("conflict", "warn", `event ${eventId} ${problem}`, { eventId, ref });
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
  declare readonly account?: string | undefined;
  declare readonly headers: Headers;
  // Do not write `this.rawBody = () => …`: V8 would allocate that function in the old generation. There, the
  // function would keep the whole request in memory until the next full garbage collection.
  readonly rawBody = (): Promise<Uint8Array> => this.#body.raw();
  readonly #body: RequestBody;
  readonly #given: RequestHeaders;
  #made: Headers | undefined;

  constructor(
    { method, url, headers }: ReceiveRequest,
    topic: string | undefined,
    account: string | undefined,
    body: RequestBody,
  ) {
    this.method = method;
    this.url = url;
    this.topic = topic;
    if (account !== undefined) this.account = account;
    this.#body = body;
    this.#given = headers ?? {};
    Object.defineProperty(this, "headers", RequestToVerify.#lazyHeaders);
  }
}
