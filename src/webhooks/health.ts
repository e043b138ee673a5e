import { withTimeout } from "../async.ts";
import type { Queue } from "../queue/queue.ts";
import type { Pause, PauseScope } from "../queue/work.ts";
import type { EventState } from "../stores/event-states.ts";
import type { EventStore, StoreSchema } from "../stores/event-store.ts";
import type { StoreCounts } from "./store-counts.ts";

/** The accounts with a shut lane. */
export interface PausedAccounts {
  /** How many accounts are paused, in whole or in part. */
  readonly count: number;
  /** The 20 that are paused longest. */
  readonly first: readonly PausedAccount[];
}

/** A pause of one account, while the others go on. */
export interface PausedAccount {
  /** The id of the account, as `accountFrom` gave it. */
  readonly account: string;
  /** What pauses: all events of the account, or those of its `bookings` or `listings`. */
  readonly scope: Exclude<PauseScope, "everything">;
  /** When the pause began. */
  readonly since: Date;
  /** The text of the latest error. */
  readonly reason: string;
}

/** The health of a handler whose store answers. */
export interface AvailableHealth {
  /**
   * `idle`: processing has not started. It does not start by itself on serverless runtimes or with
   * `autoStart: false`. `paused`: the platform is out of reach, but the handler still records notifications.
   * `stopped`: the handler is closed.
   */
  readonly state: "idle" | "running" | "paused" | "stopped";
  /** How many events the store has in each state. */
  readonly counts: Record<EventState, number>;
  /** Age of the oldest event that waits to be handled, ms. It is `undefined` if no event waits. */
  readonly oldestWaitingAge: number | undefined;
  /** When any process last recorded a notification. With `forwardTo`, only this process counts. */
  readonly lastReceivedAt: Date | undefined;
  /** When the current pause of this process began. It is `undefined` if processing is not paused. */
  readonly pausedSince: Date | undefined;
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
  /** There is no error, because the store answers. */
  readonly error?: undefined;
}

/** The health of a handler whose store does not answer. */
export interface UnavailableHealth {
  /**
   * The store failed, or did not answer within 10 seconds. Or this process could not claim events when it last tried,
   * because the store failed or did not answer the claim within 30 seconds. Or the store answers but does not record the
   * results of callbacks. The process then keeps the results, tries again, and claims nothing meanwhile.
   */
  readonly state: "unavailable";
  /** The error of the store. */
  readonly error: unknown;
  /** The counts are unknown, because the store does not answer. */
  readonly counts?: undefined;
  /** The age is unknown, because the store does not answer. */
  readonly oldestWaitingAge?: undefined;
  /** The time is unknown, because the store does not answer. */
  readonly lastReceivedAt?: undefined;
  /** No pause is reported, because the store does not answer. */
  readonly pausedSince?: undefined;
  /** No pause is reported, because the store does not answer. */
  readonly pauseReason?: undefined;
  /** No pause is reported, because the store does not answer. */
  readonly pauseScope?: undefined;
  /** No pause is reported, because the store does not answer. */
  readonly pauseRef?: undefined;
  /** No pause is reported, because the store does not answer. */
  readonly pausedAccounts?: undefined;
  /** The version is unknown, because the store does not answer. If its tables are too old, the error says so. */
  readonly schema?: undefined;
}

/** The result of {@link WebhookHandler.health}. `state` narrows its type. */
export type Health = AvailableHealth | UnavailableHealth;

/** How long the store may take to answer, ms. */
const STORE_TIMEOUT = 10_000;

/** What {@link healthOf} reports on. */
export interface Patient {
  /** `store`, `counts` and `queue` are `undefined` if `forwardTo` passes the events to a queue of the user. */
  readonly store: Pick<EventStore<never>, "lastReceivedAt" | "schema"> | undefined;
  readonly counts: Pick<StoreCounts, "read"> | undefined;
  readonly queue: Pick<Queue<never>, "state" | "pause" | "failure" | "pausedAccounts"> | undefined;
  readonly hasAccounts?: boolean;
  readonly closed: boolean;
  /** When this process last recorded a notification. */
  readonly lastReceivedAt: Date | undefined;
}

/** The number of accounts that health names. */
const NAMED = 20;

/** @param pauses - the one that is paused longest first */
function pausedAccountsOf(pauses: readonly Pause[]): PausedAccounts {
  const first = pauses
    .slice(0, NAMED)
    .map(({ account = "", scope, since, reason }) => ({ account, scope, since, reason }) as PausedAccount);
  return { count: new Set(pauses.map(({ account }) => account)).size, first };
}

/** Never rejects. */
export async function healthOf(patient: Patient): Promise<Health> {
  const { store, counts, queue, hasAccounts, closed, lastReceivedAt } = patient;
  try {
    const asked = Promise.all([counts?.read(0), store?.lastReceivedAt(), store?.schema?.()]);
    const answered = await withTimeout(STORE_TIMEOUT, asked);
    if (!answered) throw new Error(`The store did not answer within ${STORE_TIMEOUT} ms`);
    if (queue?.failure !== undefined) throw queue.failure;
    const [reading, last, schema] = answered;
    return {
      state: queue?.state ?? (closed ? "stopped" : "idle"),
      counts: reading?.counts ?? { scheduled: 0, pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 },
      oldestWaitingAge: reading?.oldestWaitingAge,
      lastReceivedAt: store ? last : lastReceivedAt,
      pausedSince: queue?.pause?.since,
      pauseReason: queue?.pause?.reason,
      pauseScope: queue?.pause?.scope,
      pauseRef: queue?.pause?.ref,
      ...(hasAccounts && { pausedAccounts: pausedAccountsOf(queue?.pausedAccounts ?? []) }),
      schema,
    };
  } catch (error) {
    return { state: "unavailable", error };
  }
}
