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
  /** The client that reads the records. Callbacks get it as `event.client`. */
  readonly client: StayhookClient<B, L>;
  /**
   * The store in which notifications are recorded before they are answered. Durable: `sqliteStore` of
   * `stayhook/sqlite`, `postgresStore` of `stayhook/postgres`, `mysqlStore` of `stayhook/mysql` and `redisStore` of
   * `stayhook/redis`. `memoryStore()` forgets them when the process ends. `forwardTo(...)` hands them to a queue of
   * your own. There is no default, so that you cannot lose events by omission.
   */
  readonly store: EventStore<Tx> | IntakeStore;
  /**
   * The callbacks by type of event, and `fallback` for the other types. The handler fetches the record, and runs the
   * callback for its status. If the callback throws or rejects, the handler tries again. An event without a callback is
   * done.
   *
   * @example
   * ```ts
   * on: {
   *   "booking.Confirmed": async ({ booking }) => blockNights(booking.listingId, stay(booking)),
   *   "booking.Cancelled": async ({ booking }) => releaseNights(booking.listingId, stay(booking)),
   * },
   * ```
   */
  readonly on: NoInfer<WebhookCallbacks<B, L, Tx>>;
  /**
   * Decides whether a request may come in: `sharedSecret(...)`, or a function of your own. The platform signs nothing:
   * without `verify`, anyone who knows the URL can make the handler read a record and run its callback again. `false`
   * accepts every request, where a proxy decides. Default: the handler accepts every request and logs a warning.
   */
  readonly verify?: Verify | false | undefined;
  /**
   * Which fields of a record are compared to tell whether it changed. The store keeps them, and no others. Default: the
   * `checkIn`, `checkOut` and `listingId` of a booking, and the `listingName` of a listing. The status always counts.
   *
   * @example
   * ```ts
   * track: { booking: ({ checkIn, checkOut, guests }) => ({ checkIn, checkOut, guests }) },
   * ```
   */
  readonly track?: Track<NoInfer<B>, NoInfer<L>> | undefined;
  /**
   * Which events run a callback. `every`: each event. `changed`: only an event whose record differs from the snapshot in
   * its status or a tracked field. Default `every`.
   */
  readonly dispatch?: "every" | "changed" | undefined;
  /**
   * If a webhook event finds its record unchanged, the handler reads the record once more after this time, because the
   * platform may notify before its own answers show the change. ms, default 60,000 (1 minute). `false` turns it off.
   */
  readonly recheckAfter?: number | false | undefined;
  /** The query parameter of the endpoint's URL that names the topic. An adapter's `topic` goes before it. Default `{ query: "topic" }`. */
  readonly topicFrom?: TopicFrom | undefined;
  /** Whether GET and HEAD requests that pass `verify` are answered 200, for a monitor. Default `false`: they are answered 405. */
  readonly answerChecks?: boolean | undefined;
  /** The largest body that is read, in bytes. Default 65,536. */
  readonly maxBodyBytes?: number | undefined;
  /** While more events than this wait, notifications are answered 503. Default 1,000,000. */
  readonly maxWaiting?: number | undefined;
  /** How long without a notification until `observe` gets `silent`, ms. Default: never. */
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
  /** Whether processing starts with the first request or adapter. `false`: it starts when you call `start()`. Default `true`. */
  readonly autoStart?: boolean | undefined;
  /** How many events this process handles at once. Default 10. */
  readonly concurrency?: number | undefined;
  /** How many attempts an event gets before it is parked. Attempts that found the platform out of reach do not count. Default 12. */
  readonly maxAttempts?: number | undefined;
  /** Gives the wait after so many failed attempts, ms. Default 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, 3 h, 5 h, 6 h, 6 h, each up to a quarter shorter. */
  readonly backoff?: Backoff | undefined;
  /** How long an attempt may take, fetching included, before its `signal` aborts. ms, default 300,000 (5 minutes). */
  readonly attemptTimeout?: number | undefined;
  /** How long an event stays leased after its process has died. ms, default 30,000. */
  readonly leaseDuration?: number | undefined;
  /** How long the platform may be out of reach for an event before the event is parked. ms, default 3 days. */
  readonly giveUpAfter?: number | undefined;
  /** How long the store keeps done events, and parked ones that were not found. ms, default 7 days. */
  readonly retention?: number | undefined;
  /** How long the store keeps parked events. ms, default 30 days. */
  readonly parkedRetention?: number | undefined;
  /** How long the store keeps the snapshot of a record. ms, default 400 days: a booking may change for a year. */
  readonly recordRetention?: number | undefined;
  /** Called for each notification, attempt, pause and alarm, for metrics. `kind` tells them apart. The handler logs its errors. */
  readonly observe?: ((event: Observation) => unknown) | undefined;
  /** Traces and measures the handler: `telemetry()` of `stayhook/otel`, or your own. Default: none. */
  readonly telemetry?: Telemetry | undefined;
  /** Writes the log lines of the handler: an object like `console`, or a function. Default: warnings and errors go to the console. */
  readonly logger?: Logger | undefined;
}

const DAY = 24 * 60 * 60_000;

const NUMBERS = {
  maxBodyBytes: { default: 65_536, least: 1, most: Number.MAX_SAFE_INTEGER, whole: true },
  maxWaiting: { default: 1_000_000, least: 0, most: Number.POSITIVE_INFINITY },
  silentAfter: { default: Number.POSITIVE_INFINITY, least: 1, most: Number.POSITIVE_INFINITY },
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
      error: "must be an EventStore; memoryStore() is one that forgets when the process ends",
    }),
    on: onSchema(),
    verify: z
      .custom<Verify | false>((verify) => verify === false || typeof verify === "function", {
        error: "must be a function, or false",
      })
      .optional(),
    track: optionsObject({ booking: callable().optional(), listing: callable().optional() }).optional(),
    dispatch: oneOf("every", "changed").optional(),
    recheckAfter: z
      .custom<number | false>(
        (given) => given === false || (Number.isSafeInteger(given) && Number(given) >= 1),
        {
          error: "must be a whole number of ms from 1, or false",
        },
      )
      .optional(),
    topicFrom: optionsObject({
      query: z.custom<string>((name) => typeof name === "string" && name !== "", {
        error: "must be the name of a query parameter",
      }),
    }).optional(),
    answerChecks: oneOf(true, false).optional(),
    processing: oneOf("background", "inline").optional(),
    autoStart: oneOf(true, false).optional(),
    backoff: callable<Backoff>().optional(),
    observe: callable<(event: Observation) => unknown>().optional(),
    telemetry: option<Telemetry>(problemWithTelemetry).optional(),
    logger: logger().optional(),
    ...numbersShape(),
  });

/**
 * Checks all options, and fills in the numbers' defaults.
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
      attempt: integerFrom(1, Number.MAX_SAFE_INTEGER, "must be a whole number from 1").optional(),
    }),
  close: () => optionsObject({ timeout: timeout() }),
};

/**
 * Checks the options of a method of the handler. Without options, it costs nothing.
 *
 * @throws InvalidArgumentError naming each field that is wrong
 */
export function checkCallOptions(method: keyof typeof calls, options: unknown): void {
  if (options !== undefined) check<unknown>(calls[method], options);
}

const timeout = () => numberFrom(0, Number.POSITIVE_INFINITY, "must be a number of ms, from 0").optional();

function isStore(store: unknown): boolean {
  if (!isObject(store) || typeof store.add !== "function") return false;
  return typeof store.claim === "function" || store.intakeOnly === true;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
