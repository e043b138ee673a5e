import type { StayhookClient } from "../client/client.ts";
import type { Logger } from "../logger.ts";
import type { Booking, Listing } from "../models/records.ts";
import type { Backoff } from "../queue/work.ts";
import type { Stays } from "../stays/types.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { IntakeStore } from "../stores/forward.ts";
import type { AccountField, HasAccounts } from "./event-additions.ts";
import type { WebhookCallbacks } from "./events.ts";
import type { Observation, Telemetry } from "./observability.ts";
import type { Track } from "./processing/snapshots.ts";
import type { RecordContext } from "./processing/time-zone.ts";
import type { AccountFrom } from "./receiving/account.ts";
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
   * The callbacks by type of event: one for each type, `booking` and `listing` for the other events of a booking or listing,
   * and `fallback` for all other types. The handler fetches the record, and runs the callback for the record's status. If the
   * callback throws or rejects, the handler tries again. An event without a callback counts as done.
   *
   * @example
   * ```ts
   * on: {
   *   // One stay for each booking code, so that a moved stay replaces the old one.
   *   "booking.Confirmed": ({ booking, stayChange }) => calendar.set(booking.bookingCode, stayChange.to),
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
   * Adds fields to those that the handler compares to detect a change. It always compares the status, `checkIn`,
   * `checkOut` and `listingId` of a booking, and the status and `listingName` of a listing. If `track` returns one of
   * these, it is also compared, and shown, in the form that you gave it. The second argument is `{ account, timeZone, stay }`
   * for a booking, and `{ account }` for a listing. The store keeps these fields, which may take 4,096 bytes of JSON. If
   * you need more, return a hash of it.
   *
   * Return the same names for each record. A field that is left out counts as `null` once this process has seen it in
   * another record. A field that a deployment adds is learnt with the next event or pass, which runs no callback for it. In
   * a handler's options, write `track` before `on`, so that TypeScript knows these fields in `event.changes` and
   * `event.previous`.
   *
   * If `track` throws, the attempt fails, as if the callback had thrown. `stays` works without these fields, so its things go
   * on.
   *
   * @example
   * ```ts
   * track: { booking: ({ total, guests }) => ({ total, guests: guests ?? null }) },
   * ```
   */
  readonly track?: Track<NoInfer<B>, NoInfer<L>, FB, FL, AccountField<A>> | undefined;
  /**
   * The time zone of the listings, for a platform that sends times in place of dates: an IANA name such as
   * `"Europe/Paris"`, or a function that returns the name for a booking of an account, or a promise of it. `event.stay`,
   * `event.stayChange`, `changes`, `previous` and the reconciler then use the days of that zone, which is `event.timeZone`. In
   * Paris, `2026-12-09T23:00:00Z` is the 10th. Default, also if the function returns `undefined`: the day as it is written, or
   * the day in UTC of a number. Then a time with an offset logs a warning.
   *
   * If the function throws, or takes longer than half of `attemptTimeout`, the attempt fails, as if the callback had thrown.
   * With `stays`, an event `booking.thing` fails in its place, `event.timeZone` is `undefined`, and dates that are times cannot
   * be read. For a booking that is gone, the function gets the booking as your side knew it. If it throws then, `event.timeZone`
   * is `undefined`.
   *
   * @example
   * ```ts
   * timeZone: ({ listingId }) => zones.get(listingId), // a Map of yours
   * timeZone: async ({ listingId }, { account }) => await db.zoneOf(account, listingId), // with accountFrom
   * ```
   */
  readonly timeZone?:
    | string
    | ((
        booking: NoInfer<B>,
        context: RecordContext & AccountField<A>,
      ) => string | undefined | PromiseLike<string | undefined>)
    | undefined;
  /**
   * The statuses in which a stay holds, for `event.stayChange`. Every other status that this package knows ends the stay. A
   * status that it does not know neither begins nor ends one. Default `["Confirmed", "InHouse"]`.
   */
  readonly holds?: readonly string[] | undefined;
  /**
   * If the record of a notification is unchanged, or is a request, just begun or of an unknown status, the handler reads
   * the record again after this time, because the platform may notify before its API shows the change. If that read still
   * shows nothing that the notification can have been sent for, a third one follows after 15 minutes. Default `"1m"`.
   * `false` turns these reads off.
   */
  readonly recheckAfter?: number | string | false | undefined;
  /**
   * Where a request names its account, for an app that serves many accounts of the platform: a query parameter, or a
   * function. An adapter's `account` overrides it. Each event then has an `account`, and the handler reads its record with
   * `client.account(account)`, so the client's `accessToken` must be a function. Write a function before `on`, so that
   * TypeScript knows `event.account`. Default: there is one account.
   *
   * @example
   * ```ts
   * accountFrom: { query: "account" },
   * ```
   */
  readonly accountFrom?: A;
  /** The size of the largest body that the handler reads, in bytes. A notification has about 200. Default 16,384. */
  readonly maxBodyBytes?: number | undefined;
  /**
   * How many events may wait before the handler answers 503 to new notifications. The handler counts them in the store,
   * and adds the notifications that it has recorded since that count. Default 1,000,000.
   */
  readonly maxBacklog?: number | undefined;
  /**
   * After this time without a notification, `observe` gets an observation of the kind `silent`, and the handler logs a
   * warning. Default: never.
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
   * The handler parks an event after this many failed calls of its callback, or after this many failed reads in a row that
   * are the fault of its record alone. An outage does not count. Default 12.
   */
  readonly maxAttempts?: number | undefined;
  /**
   * Returns the wait before the next attempt, ms, for the number of failures of the same kind so far. Default: 5 s, 30 s,
   * 2 min, 10 min, 30 min, 1 h, 2 h, 3 h, 5 h, then 6 h. Each default wait is shortened at random by up to a quarter. The first
   * three reads that fail and count wait 2, 4 and 8 s at most, and an outage 40 s.
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
   * How long the platform may be out of reach for an event before the handler parks the event as `unavailable`. During a
   * pause, the handler parks it without another read, up to five minutes later. Default `"3d"`.
   */
  readonly giveUpAfter?: number | string | undefined;
  /** How long the store keeps done events, and parked events whose record was not found. Default `"7d"`. */
  readonly retention?: number | string | undefined;
  /** How long the store keeps parked events, except those whose record was not found. Default `"30d"`. */
  readonly parkedRetention?: number | string | undefined;
  /** How long the store keeps a record's snapshot. Default `"400d"`, because a booking may change for a year. */
  readonly snapshotRetention?: number | string | undefined;
  /**
   * What should exist for a stay: `createStays(…)` of `stayhook/stays`. It counts as a callback of all bookings. Needs an
   * `EventStore`. With `accountFrom`, it needs `accounts: true`.
   */
  readonly stays?: Stays<NoInfer<B>, HasAccounts<A>> | undefined;
  /** Called with an observation of each notification, attempt, pause and alarm. Errors of `observe` are logged. */
  readonly observe?: ((event: Observation) => unknown) | undefined;
  /** Traces and measures the handler: `telemetry()` of `stayhook/otel`, or your own. Default: none. */
  readonly telemetry?: Telemetry | undefined;
  /** Writes log lines: an object like `console`, or a function. Default: warnings and errors go to the console. */
  readonly logger?: Logger | undefined;
}
