import * as z from "zod";
import { ACCOUNT_RULE, isAccount } from "../account.ts";
import { MAX_TIMER } from "../async.ts";
import type { StayhookClient } from "../client/client.ts";
import { problemWithTelemetry } from "../client/client-options.ts";
import { errorText } from "../error-text.ts";
import { InvalidArgumentError, type Issue } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { daysIn } from "../models/dates.ts";
import { eventTypes } from "../models/event-types.ts";
import { isObject } from "../models/is-object.ts";
import type { Booking, Listing } from "../models/records.ts";
import { nearest } from "../option-names.ts";
import {
  abortSignal,
  callable,
  check,
  durationFrom,
  integerFrom,
  logger,
  numberFrom,
  oneOf,
  option,
  optionsObject,
  or,
} from "../options.ts";
import { defaultBackoff, safeBackoff } from "../queue/retries.ts";
import type { Backoff, Policy } from "../queue/work.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { IntakeStore } from "../stores/forward.ts";
import { MAX_WAIT } from "../stores/outcomes.ts";
import type { AccountField, WebhookCallbacks } from "./events.ts";
import type { Observation, Telemetry } from "./observability.ts";
import type { Track } from "./processing/record.ts";
import type { RecordContext, TimeZone } from "./processing/time-zone.ts";
import type { AccountFrom } from "./receiving/account.ts";
import type { TopicFrom } from "./receiving/request.ts";
import { secretPlaceOf, type Verify } from "./receiving/verify.ts";
import { kindsOfRecords } from "./refs.ts";
import { NAME_RULE, TimerRules } from "./timers.ts";

/** Options of {@link createWebhookHandler}. A duration is a number of ms, or a text such as `"30s"`, `"24h"` or `"7d"`. */
export interface WebhookHandlerOptions<
  B extends Booking = Booking,
  L extends Listing = Listing,
  Tx = never,
  FB extends string = never,
  FL extends string = never,
  A extends AccountFrom | undefined = AccountFrom | undefined,
> {
  /** The client that reads bookings and listings. */
  readonly client: StayhookClient<B, L>;
  /**
   * The store that records each notification before the handler answers. Durable stores are `sqliteStore` of
   * `stayhook/sqlite`, `postgresStore` of `stayhook/postgres`, `mysqlStore` of `stayhook/mysql` and `redisStore` of
   * `stayhook/redis`. `memoryStore()` loses all events when the process ends. `forwardTo(...)` passes events to a queue
   * of your own. There is no default store, so that nobody loses events by forgetting this option.
   */
  readonly store: EventStore<Tx> | IntakeStore;
  /**
   * The callbacks by type of event, `booking` and `listing` for the other events of a booking or listing, and `fallback`
   * for all other types. The handler fetches the record, and
   * runs the callback for the record's status. If the callback throws or rejects, the handler tries again. An event
   * without a callback counts as done.
   *
   * @example
   * ```ts
   * on: {
   *   // One stay for each booking code, so that a moved stay replaces the old one.
   *   "booking.Confirmed": ({ booking }) => calendar.set(booking.bookingCode, booking.listingId, stay(booking)),
   *   "booking.Cancelled": ({ booking }) => calendar.delete(booking.bookingCode),
   *   "booking.Declined": ({ booking }) => calendar.delete(booking.bookingCode),
   * },
   * ```
   */
  readonly on: WebhookCallbacks<B, L, Tx, NoInfer<FB | FL>, AccountField<A>>;
  /**
   * Decides whether the handler accepts a request: `sharedSecret(...)`, or your own function. The platform does not
   * sign its requests. Without `verify`, anyone who knows the URL can make the handler read a record and run a
   * callback. Set `false` if a proxy checks the requests. Default: the handler accepts every request, and logs a
   * warning.
   */
  readonly verify?: Verify | false | undefined;
  /**
   * Chooses the fields that the handler compares to detect a change. The handler also compares the status. The store
   * keeps the status and these fields. In a handler's options, write `track` before `on`, so that TypeScript knows these
   * fields in `event.changes` and `event.previous`. For a booking, it also keeps the `checkOut`. Default: the `checkIn`,
   * `checkOut` and `listingId` of a booking, and the `listingName` of a listing. With `accountFrom`, each function gets
   * `{ account }` as its second argument.
   *
   * @example
   * ```ts
   * track: { booking: ({ checkIn, checkOut, guests }) => ({ checkIn, checkOut, guests }) },
   * ```
   */
  readonly track?: Track<NoInfer<B>, NoInfer<L>, FB, FL, AccountField<A>> | undefined;
  /**
   * The time zone of the listings, for a platform that sends times in place of dates: an IANA name such as
   * `"Europe/Paris"`, or a function that returns the name for a booking of an account. In Paris, `2026-12-09T23:00:00Z` is the 10th.
   * `stay(event.booking)`, `stayChange`, `changes`, `previous` and the reconciler then use the days of that zone. Default,
   * also if the function returns `undefined`: the day as it is written, or the day in UTC of a number. Then a time with an
   * offset logs a warning. If the function throws, the attempt fails, as if the callback had thrown.
   *
   * @example
   * ```ts
   * timeZone: ({ listingId }) => zones.get(listingId), // a Map of yours
   * timeZone: ({ listingId }, { account }) => zones.get(`${account}/${listingId}`), // with accountFrom
   * ```
   */
  readonly timeZone?:
    | string
    | ((booking: NoInfer<B>, context: RecordContext & AccountField<A>) => string | undefined)
    | undefined;
  /**
   * Whether a notification whose record has not changed, in its status or in a tracked field, runs no callback.
   * Default `false`.
   */
  readonly skipUnchanged?: boolean | undefined;
  /**
   * If the record of a notification is unchanged, or is a request, just begun or of an unknown status, the handler reads
   * the record again after this time, because the platform may notify before its API shows the change. If that read still
   * shows nothing that the notification can have been sent for, a third one follows after 15 minutes. Default `"1m"`.
   * `false` turns these reads off.
   */
  readonly recheckAfter?: number | string | false | undefined;
  /** The query parameter that names the topic. An adapter's `topic` overrides it. Default `{ query: "topic" }`. */
  readonly topicFrom?: TopicFrom | undefined;
  /**
   * Where a request names its account, for an app that serves many accounts of the platform: a query parameter, or a
   * function. An adapter's `account` overrides it. Each event then has an `account`, and the handler reads its record with
   * `client.account(account)`, so the client's `accessToken` must be a function. Write `accountFrom` before `on`, so that
   * TypeScript knows `event.account`. Default: there is one account.
   *
   * @example
   * ```ts
   * accountFrom: { query: "account" },
   * ```
   */
  readonly accountFrom?: A;
  /** Whether a monitor's GET and HEAD requests get 200 if they pass `verify`. Default `false`: they get 405. */
  readonly answerHealthChecks?: boolean | undefined;
  /** The size of the largest body that the handler reads, in bytes. A notification has about 200. Default 16,384. */
  readonly maxBodyBytes?: number | undefined;
  /**
   * How many events may wait before the handler answers 503 to new notifications. The handler counts them in the store,
   * and adds the notifications that it has recorded since that count. Default 1,000,000.
   */
  readonly maxBacklog?: number | undefined;
  /**
   * After this time without a notification, `observe` gets an observation of the kind `silent`, and the handler
   * logs a warning. Default: never.
   */
  readonly silentAfter?: number | string | undefined;
  /**
   * The handler answers each request within this time, because the platform waits for 30 s. The body, `verify` and the
   * store together may take 10 s of it at most. What is left is for inline processing. Default `"25s"`.
   */
  readonly replyWithin?: number | string | undefined;
  /**
   * When events are processed. `background`: after the answer, by this process. `inline`: before the answer, for
   * serverless runtimes. Default `background`.
   */
  readonly processing?: "background" | "inline" | undefined;
  /** Whether the first request or an adapter starts the processing. If `false`, call `start()`. Default `true`. */
  readonly autoStart?: boolean | undefined;
  /**
   * How many events this process handles at once. With `accountFrom`, an account has at most half of them, rounded up, while
   * another one is there. Default 10.
   */
  readonly concurrency?: number | undefined;
  /**
   * After this many failed attempts, an event is parked. A failure to reach the platform counts only if the platform answered
   * for other records meanwhile. Default 12.
   */
  readonly maxAttempts?: number | undefined;
  /**
   * Returns the wait before the next attempt, ms. Default: 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, 3 h, 5 h, then
   * 6 h. Each default wait is shortened at random by up to a quarter. An attempt that does not count waits 40 s at most.
   */
  readonly backoff?: Backoff | undefined;
  /**
   * How long an attempt may take, including the fetch of the record. After this time, `event.signal` aborts. Default
   * `"5m"`.
   */
  readonly attemptTimeout?: number | string | undefined;
  /** How long an event stays leased after its process has died. Default `"30s"`. */
  readonly leaseDuration?: number | string | undefined;
  /**
   * How long the platform may be out of reach for an event before the event is parked as `unavailable`. In a pause, this
   * takes up to five minutes more, and no read. Default `"3d"`.
   */
  readonly giveUpAfter?: number | string | undefined;
  /** How long the store keeps done events, and parked events whose record was not found. Default `"7d"`. */
  readonly retention?: number | string | undefined;
  /** How long the store keeps parked events, except those whose record was not found. Default `"30d"`. */
  readonly parkedRetention?: number | string | undefined;
  /** How long the store keeps a record's snapshot. Default `"400d"`, because a booking may change for a year. */
  readonly snapshotRetention?: number | string | undefined;
  /** Called with an observation of each notification, attempt, pause and alarm. Errors of `observe` are logged. */
  readonly observe?: ((event: Observation) => unknown) | undefined;
  /** Traces and measures the handler: `telemetry()` of `stayhook/otel`, or your own. Default: none. */
  readonly telemetry?: Telemetry | undefined;
  /** Writes log lines: an object like `console`, or a function. Default: warnings and errors go to the console. */
  readonly logger?: Logger | undefined;
}

/** The checked {@link WebhookHandlerOptions} with their defaults. Durations are in ms. */
export interface Settings<B extends Booking, L extends Listing, Tx> extends Policy {
  readonly client: StayhookClient<B, L>;
  readonly store: EventStore<Tx> | IntakeStore;
  readonly on: WebhookCallbacks<B, L, Tx>;
  /** `undefined`: the user has not chosen. `false`: the user has turned the check off. */
  readonly verify: Verify | false | undefined;
  readonly track: Track<B, L>;
  readonly timeZone: TimeZone<B> | undefined;
  readonly skipUnchanged: boolean;
  readonly recheckAfter: number | false;
  readonly topicFrom: TopicFrom;
  readonly accountFrom: AccountFrom | undefined;
  readonly answerHealthChecks: boolean;
  readonly maxBodyBytes: number;
  readonly maxBacklog: number;
  readonly silentAfter: number;
  readonly replyWithin: number;
  readonly processing: "background" | "inline";
  readonly autoStart: boolean;
  readonly observe: ((event: Observation) => unknown) | undefined;
  readonly telemetry: Telemetry | undefined;
  readonly logger: Logger | undefined;
}

const SECOND = 1000;
const DAY = 24 * 60 * 60 * SECOND;
const FOREVER = Number.POSITIVE_INFINITY;

/** The keys that `on` may have. */
const ON: readonly string[] = [...eventTypes, ...kindsOfRecords, "fallback"];

function problemWithType(type: string): string {
  if (TimerRules.nameIn(type) !== undefined) return `does not end with the name of a timer: ${NAME_RULE}`;
  const near = nearest(type, ON);
  const hint = near === undefined ? "." : `; did you mean ${near}?`;
  return `is not a type of event${hint} The types are ${ON.join(", ")}, and booking.timer.<name> and listing.timer.<name>`;
}

const onSchema = () =>
  z.unknown().superRefine((on, context) => {
    if (!isObject(on)) return context.addIssue("must be an object of callbacks");
    for (const [type, callback] of Object.entries(on)) {
      if (!ON.includes(type) && !TimerRules.isKey(type)) {
        context.addIssue({ code: "custom", path: [type], message: problemWithType(type) });
      } else if (callback !== undefined && typeof callback !== "function")
        context.addIssue({ code: "custom", path: [type], message: "must be a function" });
    }
  });

const duration = (byDefault: number, least: number, most: number) => or(durationFrom(least, most), byDefault);

const whole = (byDefault: number, most: number) =>
  or(integerFrom(1, most, `must be a whole number from 1 to ${most}`), byDefault);

function problemWithZone(zone: unknown): string | undefined {
  if (typeof zone === "function") return undefined;
  try {
    if (typeof zone === "string" && daysIn(zone)) return undefined;
  } catch {}
  return "must be an IANA time zone, such as Europe/Paris, or a function that returns one for a booking";
}

const recheckSchema = () =>
  z.unknown().transform((given, context): number | false => {
    const ms = given === false ? given : durationFrom(1, MAX_WAIT).safeParse(given).data;
    if (ms === false || Number.isInteger(ms)) return ms as number | false;
    context.addIssue('must be false, a whole number of ms, 1 or more, or a duration such as "30s" or "5m"');
    return z.NEVER;
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
    track: optionsObject({ booking: callable().optional(), listing: callable().optional() })
      .optional()
      .transform((track) => track ?? {}),
    timeZone: option<TimeZone>(problemWithZone).optional(),
    skipUnchanged: oneOf(true, false).default(false),
    recheckAfter: or(recheckSchema(), 60 * SECOND),
    topicFrom: optionsObject({
      query: z.custom<string>(isName, { error: "must be the name of a query parameter" }),
    })
      .optional()
      .transform((from) => from ?? { query: "topic" }),
    accountFrom: z
      .custom<AccountFrom>(
        (from) =>
          typeof from === "function" ||
          (isObject(from) && isName(from.query) && Object.keys(from).length === 1),
        { error: "must be { query: <the name of a parameter> }, or a function" },
      )
      .optional(),
    answerHealthChecks: oneOf(true, false).default(false),
    maxBodyBytes: whole(16_384, Number.MAX_SAFE_INTEGER),
    maxBacklog: or(numberFrom(0, FOREVER, "must be a number, 0 or more"), 1_000_000),
    silentAfter: duration(FOREVER, 1, FOREVER),
    replyWithin: duration(25 * SECOND, 1, MAX_TIMER),
    processing: oneOf("background", "inline").default("background"),
    autoStart: oneOf(true, false).default(true),
    concurrency: whole(10, 10_000),
    maxAttempts: whole(12, Number.MAX_SAFE_INTEGER),
    backoff: callable<Backoff>()
      .optional()
      .transform((backoff) => safeBackoff(backoff ?? defaultBackoff, defaultBackoff)),
    attemptTimeout: duration(300 * SECOND, 1, MAX_TIMER),
    leaseDuration: duration(30 * SECOND, 10, MAX_TIMER),
    giveUpAfter: duration(3 * DAY, 0, FOREVER),
    retention: duration(7 * DAY, 0, FOREVER),
    parkedRetention: duration(30 * DAY, 0, FOREVER),
    snapshotRetention: duration(400 * DAY, 0, FOREVER),
    observe: callable<(event: Observation) => unknown>().optional(),
    telemetry: option<Telemetry>(problemWithTelemetry).optional(),
    logger: logger().optional(),
  });

/** @throws InvalidArgumentError naming each option that is wrong */
export function checkOptions<B extends Booking, L extends Listing, Tx>(options: unknown): Settings<B, L, Tx> {
  const settings = check<unknown>(schema, options) as Settings<B, L, Tx>;
  const issues = problemsWithAccounts(settings);
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return settings;
}

/** Returns what the other options lack if there is an `accountFrom`, or if there is none. */
function problemsWithAccounts({ accountFrom, topicFrom, client, verify }: AccountSettings): Issue[] {
  const place = secretPlaceOf(verify);
  if (accountFrom === undefined)
    return place?.hasAccounts
      ? [
          {
            path: ["verify"],
            message: "has secrets for accounts, so the handler needs the option accountFrom",
          },
        ]
      : [];
  const { query } = accountFrom as { readonly query?: string };
  if (query !== undefined && [topicFrom.query, place?.query].includes(query))
    return [
      { path: ["accountFrom"], message: `has the same parameter as the topic or the secret: ${query}` },
    ];
  if (typeof client.account !== "function")
    return [{ path: ["client"], message: "must be a StayhookClient" }];
  try {
    client.account("-");
    return [];
  } catch (error) {
    // The client's token is a text.
    const issues =
      error instanceof InvalidArgumentError ? error.issues : [{ path: [], message: errorText(error) }];
    return issues.map(({ path, message }) => ({ path: ["client", ...path], message }));
  }
}

type AccountSettings = Pick<
  Settings<Booking, Listing, never>,
  "accountFrom" | "topicFrom" | "client" | "verify"
>;

function isName(name: unknown): boolean {
  return typeof name === "string" && name !== "";
}

const timeout = () => durationFrom(0, FOREVER).optional();

const calls = {
  drain: () => optionsObject({ timeout: timeout(), signal: abortSignal().optional() }),
  process: () =>
    optionsObject({
      signal: abortSignal().optional(),
      attempt: integerFrom(1, Number.MAX_SAFE_INTEGER, "must be a whole number, 1 or more").optional(),
      account: option<string>((id) =>
        isAccount(id) ? undefined : `must be an account: ${ACCOUNT_RULE}`,
      ).optional(),
    }),
  close: () => optionsObject({ timeout: timeout() }),
} satisfies Record<string, () => z.ZodType>;

/**
 * Checks the options of a method of the handler.
 *
 * @throws InvalidArgumentError naming each field that is wrong
 */
export function checkCallOptions<M extends keyof typeof calls>(
  method: M,
  options: unknown = {},
): z.output<ReturnType<(typeof calls)[M]>> {
  return check<unknown>(calls[method], options) as z.output<ReturnType<(typeof calls)[M]>>;
}

function isStore(store: unknown): boolean {
  if (!isObject(store) || typeof store.add !== "function") return false;
  return typeof store.claim === "function" || store.intakeOnly === true;
}
