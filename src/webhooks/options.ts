import * as z from "zod";
import { MAX_TIMER } from "../async.ts";
import type { StayhookClient } from "../client/client.ts";
import { problemWithTelemetry } from "../client/client-options.ts";
import type { Logger } from "../logger.ts";
import type { Booking, Listing } from "../models/records.ts";
import {
  abortSignal,
  callable,
  check,
  integerFrom,
  logger,
  numberFrom,
  oneOf,
  option,
  optionsObject,
} from "../options.ts";
import type { Backoff } from "../queue/work.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { IntakeStore } from "../stores/forward.ts";
import type { WebhookCallbacks } from "./events.ts";
import { eventTypes } from "./events.ts";
import type { Observation, Telemetry } from "./observability.ts";
import type { Track } from "./processing/record.ts";
import type { TopicFrom } from "./receiving/request.ts";
import type { Verify } from "./receiving/verify.ts";

/** Options of {@link createWebhookHandler}. */
export interface WebhookHandlerOptions<B extends Booking = Booking, L extends Listing = Listing, Tx = never> {
  /** The client that reads bookings and listings. Callbacks get the client as `event.client`. */
  readonly client: StayhookClient<B, L>;
  /**
   * The store that records each notification before the handler answers. Durable stores are `sqliteStore` of
   * `stayhook/sqlite`, `postgresStore` of `stayhook/postgres`, `mysqlStore` of `stayhook/mysql` and `redisStore` of
   * `stayhook/redis`. `memoryStore()` loses all events when the process ends. `forwardTo(...)` passes events to a queue
   * of your own. There is no default store, so that nobody loses events by forgetting this option.
   */
  readonly store: EventStore<Tx> | IntakeStore;
  /**
   * The callbacks by type of event, and `fallback` for types without a callback. The handler fetches the record, and
   * runs the callback for the record's status. If the callback throws or rejects, the handler tries again. An event
   * without a callback counts as done.
   *
   * @example
   * ```ts
   * on: {
   *   // One stay for each booking code, so that a moved stay replaces the old one.
   *   "booking.Confirmed": ({ booking }) => calendar.set(booking.bookingCode, booking.listingId, stay(booking)),
   *   "booking.Cancelled": ({ booking }) => calendar.delete(booking.bookingCode),
   * },
   * ```
   */
  readonly on: NoInfer<WebhookCallbacks<B, L, Tx>>;
  /**
   * Decides whether the handler accepts a request: `sharedSecret(...)`, or your own function. The platform does not
   * sign its requests. Without `verify`, anyone who knows the URL can make the handler read a record and run a
   * callback. Set `false` if a proxy checks the requests. Default: the handler accepts every request, and logs a
   * warning.
   */
  readonly verify?: Verify | false | undefined;
  /**
   * Chooses the fields that the handler compares to detect a change. The handler also compares the status. The store
   * keeps the status and these fields. For a booking, it also keeps the `checkOut`. Default: the `checkIn`,
   * `checkOut` and `listingId` of a booking, and the `listingName` of a listing.
   *
   * @example
   * ```ts
   * track: { booking: ({ checkIn, checkOut, guests }) => ({ checkIn, checkOut, guests }) },
   * ```
   */
  readonly track?: Track<NoInfer<B>, NoInfer<L>> | undefined;
  /**
   * Whether a notification whose record has not changed, in its status or in a tracked field, runs no callback.
   * Default `false`.
   */
  readonly skipUnchanged?: boolean | undefined;
  /**
   * If the record of a notification is unchanged, the handler reads the record again after this time, because the
   * platform may notify before its API shows the change. ms, default 60,000 (1 minute). `false` turns the second
   * read off.
   */
  readonly recheckAfter?: number | false | undefined;
  /** The query parameter that names the topic. An adapter's `topic` overrides it. Default `{ query: "topic" }`. */
  readonly topicFrom?: TopicFrom | undefined;
  /** Whether a monitor's GET and HEAD requests get 200 if they pass `verify`. Default `false`: they get 405. */
  readonly answerHealthChecks?: boolean | undefined;
  /** The size of the largest body that the handler reads, in bytes. Default 65,536. */
  readonly maxBodyBytes?: number | undefined;
  /** How many events may wait before the handler answers 503 to new notifications. Default 1,000,000. */
  readonly maxBacklog?: number | undefined;
  /**
   * After this many ms without a notification, `observe` gets an observation of the kind `silent`, and the handler
   * logs a warning. Default: never.
   */
  readonly silentAfter?: number | undefined;
  /**
   * The handler answers each request within this time, even if the body, `verify`, the store or inline processing take
   * longer. ms, default 25,000, because the platform waits for 30 s.
   */
  readonly replyWithin?: number | undefined;
  /**
   * When events are processed. `background`: after the answer, by this process. `inline`: before the answer, for
   * serverless runtimes. Default `background`.
   */
  readonly processing?: "background" | "inline" | undefined;
  /** Whether the first request or an adapter starts the processing. If `false`, call `start()`. Default `true`. */
  readonly autoStart?: boolean | undefined;
  /** How many events this process handles at once. Default 10. */
  readonly concurrency?: number | undefined;
  /** After this many failed attempts, an event is parked. Failures to reach the platform do not count. Default 12. */
  readonly maxAttempts?: number | undefined;
  /**
   * Returns the wait before the next attempt, ms. Default: 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, 3 h, 5 h, then
   * 6 h. Each default wait is shortened at random by up to a quarter.
   */
  readonly backoff?: Backoff | undefined;
  /**
   * How long an attempt may take, including the fetch of the record. After this time, `event.signal` aborts. ms,
   * default 300,000 (5 minutes).
   */
  readonly attemptTimeout?: number | undefined;
  /** How long an event stays leased after its process has died. ms, default 30,000. */
  readonly leaseDuration?: number | undefined;
  /** How long the platform may be out of reach for an event before the event is parked. ms, default 3 days. */
  readonly giveUpAfter?: number | undefined;
  /** How long the store keeps done events, and parked events whose record was not found. ms, default 7 days. */
  readonly retention?: number | undefined;
  /** How long the store keeps parked events, except those whose record was not found. ms, default 30 days. */
  readonly parkedRetention?: number | undefined;
  /** How long the store keeps a record's snapshot. ms, default 400 days, because a booking may change for a year. */
  readonly snapshotRetention?: number | undefined;
  /** Called with an observation of each notification, attempt, pause and alarm. Errors of `observe` are logged. */
  readonly observe?: ((event: Observation) => unknown) | undefined;
  /** Traces and measures the handler: `telemetry()` of `stayhook/otel`, or your own. Default: none. */
  readonly telemetry?: Telemetry | undefined;
  /** Writes log lines: an object like `console`, or a function. Default: warnings and errors go to the console. */
  readonly logger?: Logger | undefined;
}

const DAY = 24 * 60 * 60_000;

const NUMBERS = {
  maxBodyBytes: { default: 65_536, least: 1, most: Number.MAX_SAFE_INTEGER, whole: true },
  maxBacklog: { default: 1_000_000, least: 0, most: Number.POSITIVE_INFINITY },
  silentAfter: { default: Number.POSITIVE_INFINITY, least: 1, most: Number.POSITIVE_INFINITY },
  replyWithin: { default: 25_000, least: 1, most: MAX_TIMER },
  concurrency: { default: 10, least: 1, most: 10_000, whole: true },
  maxAttempts: { default: 12, least: 1, most: Number.MAX_SAFE_INTEGER, whole: true },
  attemptTimeout: { default: 300_000, least: 1, most: MAX_TIMER },
  leaseDuration: { default: 30_000, least: 10, most: MAX_TIMER },
  giveUpAfter: { default: 3 * DAY, least: 0, most: Number.POSITIVE_INFINITY },
  retention: { default: 7 * DAY, least: 0, most: Number.POSITIVE_INFINITY },
  parkedRetention: { default: 30 * DAY, least: 0, most: Number.POSITIVE_INFINITY },
  snapshotRetention: { default: 400 * DAY, least: 0, most: Number.POSITIVE_INFINITY },
} as const;

type Numbers = { -readonly [K in keyof typeof NUMBERS]: number };

const numbersShape = () =>
  Object.fromEntries(
    Object.entries(NUMBERS).map(([name, { default: byDefault, least, most, ...rule }]) => {
      const error = `must be a ${"whole" in rule ? "whole " : ""}number from ${least} to ${most}`;
      const number = ("whole" in rule ? integerFrom : numberFrom)(least, most, error);
      return [name, number.nullish().transform((given) => given ?? byDefault)];
    }),
  );

/** The keys that `on` may have. */
const ON: readonly string[] = [...eventTypes, "fallback"];

const onSchema = () =>
  z.unknown().superRefine((on, context) => {
    if (!isObject(on)) return context.addIssue("must be an object of callbacks");
    for (const [type, callback] of Object.entries(on)) {
      if (!ON.includes(type)) {
        const message = `is not a type of event. The types are ${ON.join(", ")}`;
        context.addIssue({ code: "custom", path: [type], message });
      } else if (callback !== undefined && typeof callback !== "function")
        context.addIssue({ code: "custom", path: [type], message: "must be a function" });
    }
  });

const schema = () =>
  optionsObject({
    client: z.custom<StayhookClient>(
      (client) => isObject(client) && isObject(client.bookings) && isObject(client.listings),
      { error: "must be a StayhookClient" },
    ),
    store: z.custom<EventStore | IntakeStore>(isStore, {
      error: "must be an EventStore, such as sqliteStore(…); for tests, use memoryStore()",
    }),
    on: onSchema(),
    verify: z
      .custom<Verify | false>((verify) => verify === false || typeof verify === "function", {
        error: "must be a function, or false",
      })
      .optional(),
    track: optionsObject({ booking: callable().optional(), listing: callable().optional() }).optional(),
    skipUnchanged: oneOf(true, false).optional(),
    recheckAfter: z
      .custom<number | false>(
        (given) => given === false || (Number.isSafeInteger(given) && Number(given) >= 1),
        { error: "must be false, or a whole number of ms, 1 or more" },
      )
      .optional(),
    topicFrom: optionsObject({
      query: z.custom<string>((name) => typeof name === "string" && name !== "", {
        error: "must be the name of a query parameter",
      }),
    }).optional(),
    answerHealthChecks: oneOf(true, false).optional(),
    processing: oneOf("background", "inline").optional(),
    autoStart: oneOf(true, false).optional(),
    backoff: callable<Backoff>().optional(),
    observe: callable<(event: Observation) => unknown>().optional(),
    telemetry: option<Telemetry>(problemWithTelemetry).optional(),
    logger: logger().optional(),
    ...numbersShape(),
  });

/**
 * Checks all options, and returns the numeric options with their defaults.
 *
 * @throws InvalidArgumentError naming each option that is wrong
 */
export function checkOptions(options: unknown): Numbers {
  const checked: Readonly<Record<string, unknown>> = check(schema, options);
  return Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, checked[name]])) as Numbers;
}

const calls = {
  drain: () => optionsObject({ timeout: timeout(), signal: abortSignal().optional() }),
  process: () =>
    optionsObject({
      signal: abortSignal().optional(),
      attempt: integerFrom(1, Number.MAX_SAFE_INTEGER, "must be a whole number, 1 or more").optional(),
    }),
  close: () => optionsObject({ timeout: timeout() }),
};

/**
 * Checks the options of a method of the handler, unless they are `undefined`.
 *
 * @throws InvalidArgumentError naming each field that is wrong
 */
export function checkCallOptions(method: keyof typeof calls, options: unknown): void {
  if (options !== undefined) check<unknown>(calls[method], options);
}

const timeout = () => numberFrom(0, Number.POSITIVE_INFINITY, "must be a number of ms, 0 or more").optional();

function isStore(store: unknown): boolean {
  if (!isObject(store) || typeof store.add !== "function") return false;
  return typeof store.claim === "function" || store.intakeOnly === true;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
