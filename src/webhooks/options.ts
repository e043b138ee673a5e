import type { StayhookClient } from "../client/client.ts";
import { InvalidArgumentError, type Issue } from "../errors.ts";
import { isLogger, type Logger } from "../logger.ts";
import type { Booking } from "../models/booking.ts";
import type { Listing } from "../models/listing.ts";
import type { Backoff } from "../queue/backoff.ts";
import type { QueueObservation } from "../queue/policy.ts";
import { MAX_TIMER } from "../queue/timer.ts";
import type { EventStore, IntakeStore } from "../stores/event-store.ts";
import { eventTypes } from "./event-type.ts";
import type { WebhookCallbacks } from "./events.ts";
import type { ReceiveObservation } from "./receiving/receive.ts";
import type { Verify } from "./receiving/verify.ts";

/** What {@link WebhookHandlerOptions.observe} is told; `kind` tells which. */
export type Observation = ReceiveObservation | QueueObservation;

/** Options of {@link createWebhookHandler}. All times in ms. */
export interface WebhookHandlerOptions<B extends Booking = Booking, L extends Listing = Listing, Tx = never> {
  /** Fetches the records, and is handed to the callbacks. */
  readonly client: StayhookClient<B, L>;
  /** Where notifications are recorded before they are answered. No default: forgetting must be chosen (`memoryStore()`). `forwardTo(...)` hands them to a queue of your own. */
  readonly store: EventStore<Tx> | IntakeStore;
  /** The callbacks, by type of event. An event that has none here, nor a `fallback`, is done without one. */
  readonly on: NoInfer<WebhookCallbacks<B, L, Tx>>;
  /**
   * Decides whether a request may come in: `sharedSecret(...)`, or your own. The platform signs nothing, so
   * that without it anyone who knows the URL can make the handler fetch a record and run its callback again.
   * Default: everything comes in.
   */
  readonly verify?: Verify | undefined;
  /** `changed`: no callback where the record's status is the one that was handled last. Default `every`. */
  readonly dispatch?: "every" | "changed" | undefined;
  /** The largest body that is read. Default 65,536. */
  readonly maxBodyBytes?: number | undefined;
  /** How long a body may stall. Default 10,000. */
  readonly bodyTimeout?: number | undefined;
  /** How long the store may take to record. Default 10,000. */
  readonly recordTimeout?: number | undefined;
  /**
   * How long after its arrival a request is answered at the latest; caps `bodyTimeout`, `recordTimeout`,
   * `verify`, and the waiting of inline processing. Default 25,000: the platform waits for 30,000.
   */
  readonly replyWithin?: number | undefined;
  /** `inline`: processed before the answer, for where nothing lives on. Default `background`. */
  readonly processing?: "background" | "inline" | undefined;
  /** Whether processing begins by itself, where a process lives on. Default `true`. */
  readonly autoStart?: boolean | undefined;
  /** Events that this process handles at once. Default 10. */
  readonly concurrency?: number | undefined;
  /** Attempts in all, the first included. Default 12. */
  readonly maxAttempts?: number | undefined;
  /** The wait before another attempt, after so many. Default 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, 3 h, 5 h, 6 h, 6 h, each up to a quarter shorter. */
  readonly backoff?: Backoff | undefined;
  /** How long an attempt may take, fetching included, before its `signal` aborts. Default 300,000. */
  readonly attemptTimeout?: number | undefined;
  /** How long an event stays locked after its process has died. Renewed at a third of it. Default 30,000. */
  readonly leaseDuration?: number | undefined;
  /** How long the platform may be out of reach for an event before it is parked. Default 3 days. */
  readonly giveUpAfter?: number | undefined;
  /** How long ids of done events, and parked ones that were not found, are kept. Default 7 days. */
  readonly retention?: number | undefined;
  /** How long parked events are kept. Default 30 days. */
  readonly parkedRetention?: number | undefined;
  /** How long a record's last status is kept. Default 400 days: a booking may change for a year. */
  readonly recordRetention?: number | undefined;
  /** Told of all that happens. What it throws is logged, and changes nothing. */
  readonly observe?: ((event: Observation) => unknown) | undefined;
  /** Default: warnings and errors to the console. */
  readonly logger?: Logger | undefined;
}

const DAY = 24 * 60 * 60_000;

const NUMBERS = {
  maxBodyBytes: { default: 65_536, least: 1, most: Number.MAX_SAFE_INTEGER, whole: true },
  bodyTimeout: { default: 10_000, least: 1, most: MAX_TIMER },
  recordTimeout: { default: 10_000, least: 1, most: MAX_TIMER },
  replyWithin: { default: 25_000, least: 1, most: MAX_TIMER },
  concurrency: { default: 10, least: 1, most: 10_000, whole: true },
  maxAttempts: { default: 12, least: 1, most: Number.MAX_SAFE_INTEGER, whole: true },
  attemptTimeout: { default: 300_000, least: 1, most: MAX_TIMER },
  leaseDuration: { default: 30_000, least: 10, most: MAX_TIMER },
  giveUpAfter: { default: 3 * DAY, least: 0, most: Number.POSITIVE_INFINITY },
  retention: { default: 7 * DAY, least: 0, most: Number.POSITIVE_INFINITY },
  parkedRetention: { default: 30 * DAY, least: 0, most: Number.POSITIVE_INFINITY },
  recordRetention: { default: 400 * DAY, least: 0, most: Number.POSITIVE_INFINITY },
} as const;

type Numbers = { -readonly [K in keyof typeof NUMBERS]: number };

/** What `on` may have a callback for. */
const ON: readonly string[] = [...eventTypes, "fallback"];

const NAMES: readonly string[] = [
  ...Object.keys(NUMBERS),
  ...[
    "client",
    "store",
    "on",
    "verify",
    "dispatch",
    "processing",
    "autoStart",
    "backoff",
    "observe",
    "logger",
  ],
];

/** Names that are none of the options: misspelt, in JavaScript. */
export function unknownOptions(options: object): string[] {
  return Object.keys(options).filter((name) => !NAMES.includes(name));
}

/** Checks all options at once, and fills in the numbers' defaults. */
export function checkOptions(options: unknown): Numbers {
  const issues: Issue[] = [];
  const refuse = (field: string, message: string, ...path: string[]) =>
    issues.push({ path: [field, ...path], message });
  if (!isObject(options)) throw new InvalidArgumentError({ path: [], message: "options must be an object" });
  checkParts(options, refuse);
  checkChoices(options, refuse);
  const numbers = checkNumbers(options, refuse);
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return numbers;
}

/** Checks what `drain`, `process` and `close` take. @throws InvalidArgumentError naming each field that is wrong */
export function checkCallOptions(options: unknown): void {
  if (!isObject(options))
    throw new InvalidArgumentError({ path: [], message: "the options must be an object" });
  const { timeout, signal } = options;
  const issues: Issue[] = [];
  if (timeout !== undefined && !(typeof timeout === "number" && timeout >= 0))
    issues.push({ path: ["timeout"], message: "must be a number of ms, from 0" });
  if (signal !== undefined && !(isObject(signal) && typeof signal.addEventListener === "function"))
    issues.push({ path: ["signal"], message: "must be an AbortSignal" });
  if (issues.length > 0) throw new InvalidArgumentError(issues);
}

type Refuse = (field: string, message: string, ...path: string[]) => void;

function checkParts(options: Record<string, unknown>, refuse: Refuse): void {
  const { client, store, on } = options;
  if (!isObject(client) || !isObject(client.bookings) || !isObject(client.listings)) {
    refuse("client", "must be a StayhookClient");
  }
  const takes = isObject(store) && typeof store.add === "function";
  if (!takes || (typeof store.claim !== "function" && store.intakeOnly !== true)) {
    refuse("store", "must be an EventStore; memoryStore() is one that forgets when the process ends");
  }
  if (!isObject(on)) {
    refuse("on", "must be an object of callbacks");
    return;
  }
  for (const [type, callback] of Object.entries(on)) {
    if (!ON.includes(type)) {
      refuse("on", `is no type of event; there are ${ON.join(", ")}`, type);
    } else if (callback !== undefined && typeof callback !== "function") {
      refuse("on", "must be a function", type);
    }
  }
}

function checkChoices(options: Record<string, unknown>, refuse: Refuse): void {
  const choices = {
    dispatch: ["every", "changed"],
    processing: ["background", "inline"],
    autoStart: [true, false],
  };
  for (const [field, allowed] of Object.entries(choices)) {
    const value = options[field];
    if (value !== undefined && !(allowed as unknown[]).includes(value)) {
      refuse(field, `must be ${allowed.map((choice) => JSON.stringify(choice)).join(" or ")}`);
    }
  }
  for (const field of ["verify", "backoff", "observe"]) {
    if (options[field] !== undefined && typeof options[field] !== "function")
      refuse(field, "must be a function");
  }
  const { logger } = options;
  if (logger !== undefined && !(isObject(logger) && isLogger(logger)))
    refuse("logger", "must have the functions debug, info, warn and error");
}

function checkNumbers(options: Record<string, unknown>, refuse: Refuse): Numbers {
  const numbers = {} as Numbers;
  for (const [field, rule] of Object.entries(NUMBERS)) {
    const value = options[field] ?? rule.default;
    const whole = "whole" in rule;
    const fits = typeof value === "number" && value >= rule.least && value <= rule.most;
    if (!fits || (whole && !Number.isInteger(value))) {
      refuse(field, `must be a ${whole ? "whole " : ""}number from ${rule.least} to ${rule.most}`);
    } else {
      numbers[field as keyof Numbers] = value;
    }
  }
  return numbers;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
