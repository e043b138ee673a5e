import { withTimeout } from "../async.ts";
import type { Queue } from "../queue/queue.ts";
import type { Pause, PauseScope } from "../queue/work.ts";
import { type EventState, noEvents } from "../stores/event-states.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoreSchema } from "../stores/store-options.ts";
import type { StoreCounts } from "./store-counts.ts";

/** The accounts that are paused, in whole or in part. */
export type PausedAccounts = {
  /** How many accounts are paused, in whole or in part. */
  readonly count: number;
  /** The 20 that are paused longest. */
  readonly first: readonly PausedAccount[];
};

/** A pause of one account, while the others go on. */
export type PausedAccount = {
  /** The id of the account, as `accountFrom` gave it. */
  readonly account: string;
  /** What pauses: all events of the account, or those of its `bookings` or `listings`. */
  readonly scope: Exclude<PauseScope, "everything">;
  /** When the pause began. */
  readonly since: Date;
  /** When this process tries the platform again. */
  readonly nextTryAt: Date;
  /** The text of the latest error. */
  readonly reason: string;
};

/** The health of a handler whose store answers. */
export type AvailableHealth = {
  /**
   * `idle`: processing has not started. It does not start by itself on serverless runtimes or with
   * `autoStart: false`. `paused`: the platform is out of reach, but the handler still records notifications.
   * `stopped`: the handler is closed.
   */
  readonly state: "idle" | "running" | "paused" | "stopped";
  /** How many events the store has in each state. */
  readonly counts: Record<EventState, number>;
  /**
   * Age of the oldest event that waits to be handled, ms. It counts from when the event was first due, or was replayed. It
   * is `undefined` if no event waits.
   */
  readonly oldestWaitingAge: number | undefined;
  /** When any process last recorded a notification. With `forwardTo`, only this process counts. */
  readonly lastReceivedAt: Date | undefined;
  /** When the current pause of this process began. It is `undefined` if processing is not paused. */
  readonly pausedSince: Date | undefined;
  /** When this process tries the platform again. It is `undefined` if processing is not paused. */
  readonly nextTryAt: Date | undefined;
  /** The text of the latest error that keeps this process paused. */
  readonly pauseReason: string | undefined;
  /**
   * What pauses: `everything`, or only the events of `bookings` or `listings`, while the others go on. It is `undefined`
   * if processing is not paused.
   */
  readonly pauseScope: PauseScope | undefined;
  /** The record whose read decided the pause, such as `booking:HX3K9`. It is `undefined` if processing is not paused. */
  readonly pauseRef: string | undefined;
  /** The accounts that this process has paused, in a handler with `accountFrom`. Other handlers have no such field. */
  readonly pausedAccounts?: PausedAccounts | undefined;
  /**
   * The version of the store's tables or keys, and the version that this stayhook makes. A higher `version` is fine: a
   * newer stayhook has upgraded the store. It is `undefined` if the store has no versions, such as `memoryStore`.
   */
  readonly schema?: StoreSchema | undefined;
  /**
   * Why this process could not delete old events and snapshots when it last tried: see `retention`. It is `undefined` if
   * it could, or has not tried yet.
   */
  readonly retentionError?: unknown;
  /** There is no error, because the store answers. */
  readonly error?: undefined;
};

/** The fields that a handler does not report if its store fails. If the store's tables are too old, the error says so. */
type Unreported =
  | "lastReceivedAt"
  | "nextTryAt"
  | "schema"
  | Extract<keyof AvailableHealth, `pause${string}`>;

/** The health of a handler whose store fails in part or altogether. */
export type UnavailableHealth = Partial<Record<Unreported, undefined>> & {
  /**
   * The store failed, or did not answer within 10 seconds. Or this process could not claim events when it last tried,
   * because the store failed or did not answer the claim within 30 seconds. Or the store answers but does not record the
   * results of callbacks. The process then keeps the results, each in a slot, and tries again.
   */
  readonly state: "unavailable";
  /** The error of the store. */
  readonly error: unknown;
  /** How many events the store has in each state. It is `undefined` if the store does not tell. */
  readonly counts?: Record<EventState, number> | undefined;
  /** Age of the oldest event that waits to be handled, ms. It is `undefined` if no event waits, or the store does not tell. */
  readonly oldestWaitingAge?: number | undefined;
  /** Why this process could not delete old events and snapshots when it last tried. */
  readonly retentionError?: unknown;
};

/** The result of {@link WebhookHandler.health}. `state` narrows its type. */
export type Health = AvailableHealth | UnavailableHealth;

/** How long the store may take to answer, ms. */
const STORE_TIMEOUT = 10_000;

/** What {@link healthOf} reports on. */
export interface Patient {
  /** `store`, `counts` and `queue` are `undefined` if `forwardTo` passes the events to a queue of the user. */
  readonly store: Pick<EventStore<never>, "lastReceivedAt" | "oldestWaiting" | "schema"> | undefined;
  readonly counts: Pick<StoreCounts, "count"> | undefined;
  readonly queue:
    | Pick<Queue<never>, "state" | "pause" | "failure" | "pausedAccounts" | "retentionError" | "checkPauses">
    | undefined;
  readonly hasAccounts?: boolean;
  readonly closed: boolean;
  /** When this process last recorded a notification. */
  readonly lastReceivedAt: Date | undefined;
}

/** The number of accounts that health names. */
const NAMED = 20;

/** @param pauses - one for each paused account, the one that is paused longest first */
function pausedAccountsOf(pauses: readonly Pause[]): PausedAccounts {
  const first = pauses
    .slice(0, NAMED)
    .map(
      ({ account = "", scope, since, nextTryAt, reason }) =>
        ({ account, scope, since, nextTryAt, reason }) as PausedAccount,
    );
  return { count: pauses.length, first };
}

/** Never rejects. */
export async function healthOf(patient: Patient): Promise<Health> {
  const { store, counts, queue, hasAccounts, closed, lastReceivedAt } = patient;
  const [counted, oldest, last, schema] = await Promise.all([
    answerOf(async () => counts?.count(0)),
    answerOf(async () => store?.oldestWaiting()),
    answerOf(async () => store?.lastReceivedAt()),
    answerOf(async () => store?.schema?.()),
    // A pause that is told must have something that waits for its end.
    answerOf(async () => queue?.checkPauses()),
  ]);
  const retention = queue?.retentionError === undefined ? {} : { retentionError: queue.retentionError };
  const failed = [counted, oldest, last, schema].find((answer) => "error" in answer);
  const error = failed === undefined ? queue?.failure : failed.error;
  if (failed !== undefined || error !== undefined) {
    const told = { counts: counted.value?.counts, oldestWaitingAge: oldest.value };
    return { state: "unavailable", error, ...told, ...retention };
  }
  return {
    state: queue?.state ?? (closed ? "stopped" : "idle"),
    counts: counted.value?.counts ?? { ...noEvents },
    oldestWaitingAge: oldest.value,
    lastReceivedAt: store ? last.value : lastReceivedAt,
    pausedSince: queue?.pause?.since,
    nextTryAt: queue?.pause?.nextTryAt,
    pauseReason: queue?.pause?.reason,
    pauseScope: queue?.pause?.scope,
    pauseRef: queue?.pause?.ref,
    ...(hasAccounts && { pausedAccounts: pausedAccountsOf(queue?.pausedAccounts ?? []) }),
    schema: schema.value,
    ...retention,
  };
}

/** What one call of the store answers, or why it does not. */
type Answer<T> =
  | { readonly value: T; readonly error?: never }
  | { readonly value?: never; readonly error: unknown };

async function answerOf<T>(call: () => Promise<T>): Promise<Answer<T>> {
  try {
    const answered = await withTimeout(
      STORE_TIMEOUT,
      call().then((value) => ({ value })),
    );
    return answered ?? { error: new Error(`The store did not answer within ${STORE_TIMEOUT} ms`) };
  } catch (error) {
    return { error };
  }
}
