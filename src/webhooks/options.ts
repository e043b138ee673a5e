import type { StayhookClient } from "../client/client.ts";
import type { Logger } from "../logger.ts";
import type { Booking, Listing } from "../models/records.ts";
import type { Backoff } from "../queue/work.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { IntakeStore } from "../stores/forward.ts";
import type { AccountField } from "./event-additions.ts";
import type { WebhookCallbacks } from "./events.ts";
import type { Observation, Telemetry } from "./observability.ts";
import type { Track } from "./processing/record.ts";
import type { RecordContext } from "./processing/time-zone.ts";
import type { AccountFrom } from "./receiving/account.ts";
import type { TopicFrom } from "./receiving/request.ts";
import type { Verify } from "./receiving/verify.ts";

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
