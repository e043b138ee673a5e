import * as z from "zod";
import { MAX_TIMER } from "../async.ts";
import { checkEnsureInput, type EnsureInput } from "../client/webhook-config.ts";
import { InvalidArgumentError } from "../errors.ts";
import { Log, type Logger } from "../logger.ts";
import { callable, check, integerFrom, logger, numberFrom, option, optionsObject } from "../options.ts";
import { safeBackoff } from "../queue/retries.ts";
import type { Backoff } from "../queue/work.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { FieldChanges } from "../webhooks/events.ts";
import { type Internals, internalsOf, problemsWithHandler } from "../webhooks/internals.ts";
import { type ReconcilerAlarm, safeObserve } from "../webhooks/observability.ts";

/**
 * Why a pass did not check everything. `locked`: another pass is under way, on this machine or another. `unreachable`:
 * the platform is out of reach. `aborted`: the signal aborted, or the reconciler was closed. The next pass goes on
 * where this one stopped.
 */
export type Incomplete = "locked" | "unreachable" | "aborted";

/** The result of a pass. */
export interface ReconcileReport {
  /** Listings and bookings that were read and compared. */
  readonly checked: number;
  /** Records with a new event because they had changed. Events that `watch` added since the last pass count as well. */
  readonly changed: number;
  /** Records that could not be read, and rows of the list that do not validate. */
  readonly failed: number;
  /** How long the pass took, without the callbacks, ms. */
  readonly duration: number;
  /** Present if the list of listings may have further pages that the client did not read. See the client option `nextPage`. */
  readonly partial?: true;
  /** Why the pass did not check everything. Absent if it did. */
  readonly incomplete?: Incomplete;
}

interface OfRecord {
  /** `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
}

interface OfRead extends OfRecord {
  /** The status that was read. */
  readonly status: string;
}

interface OfChange extends OfRecord {
  /** The id of the event that the reconciler added. */
  readonly eventId: string;
  /** The status that was read; `undefined` where `watch` could not read the booking. */
  readonly status: string | undefined;
  /** The fields that differ from the snapshot. */
  readonly changes: FieldChanges;
}

interface OfSnapshot<S> {
  /** The status in the snapshot; `undefined` where no snapshot is known. */
  readonly previousStatus: S;
}

interface OfFailure {
  /** The error that was thrown. */
  readonly error: unknown;
}

/** The argument of {@link ReconcilerOptions.observe}. `kind` narrows it. */
export type ReconcileObservation =
  | ReconcilerAlarm
  | (OfRead & {
      /** A booking was read, or a listing found in the list. */
      readonly kind: "checked";
    })
  | (OfChange &
      OfSnapshot<string | undefined> & {
        /** The record has changed since an event of it was last handled, and an event for the change is in the store now. */
        readonly kind: "changed";
      })
  | (OfRead & {
      /** The first pass recorded the snapshot of a listing, without a callback. */
      readonly kind: "learned";
    })
  | (OfRecord &
      OfFailure & {
        /** A record could not be read. `ref` is `listings` where it is the list. */
        readonly kind: "failed";
      })
  | (OfRecord &
      OfSnapshot<string> & {
        /** A known listing is no longer in the list. The reconciler adds no event, because the listing has no status. */
        readonly kind: "vanished";
      })
  | (ReconcileReport & {
      /** A pass has ended. */
      readonly kind: "pass";
    })
  | (OfFailure & {
      /** A scheduled pass failed because the store failed. The reconciler tries again. */
      readonly kind: "error";
    });

/** Options of {@link createReconciler}. */
export interface ReconcilerOptions {
  /**
   * How often `start()` makes a pass, over all machines that share the store. A number is in ms. Text is a number with a
   * unit, without a space: `"500ms"`, `"90s"`, `"30m"`, `"1.5h"`, `"7d"`. At most half the handler's `recordRetention`.
   * Default `"24h"`.
   */
  readonly every?: number | string | undefined;
  /**
   * The endpoints that the webhook configuration should have: a URL for each topic, or one URL for all, as
   * `webhookConfig.ensure` takes them. Each pass compares them and reports a difference as `drift`.
   */
  readonly expect?: EnsureInput["endpoints"] | undefined;
  /** How many records the reconciler reads at once. Default 4. */
  readonly concurrency?: number | undefined;
  /** Whether the first pass records unknown listings without a callback. `false`: their callbacks run. Default `true`. */
  readonly baseline?: boolean | undefined;
  /** Returns the wait in ms after the given number of failed rounds of reads in a row. Default 1 s, doubled up to 30 s, each up to a quarter shorter. */
  readonly backoff?: Backoff | undefined;
  /** How long the lock of a dead process lasts, ms. No other machine makes a pass meanwhile. Default 60,000. */
  readonly leaseDuration?: number | undefined;
  /** Called with each observation. The reconciler logs its errors and goes on. */
  readonly observe?: ((event: ReconcileObservation) => unknown) | undefined;
  /** Default: the handler's. */
  readonly logger?: Logger | undefined;
}

/** The checked {@link ReconcilerOptions} with their defaults. */
export interface Settings {
  readonly internals: Internals;
  readonly client: Internals["client"];
  readonly store: EventStore<unknown>;
  /** ms */
  readonly every: number;
  /** The expected URL of each topic; `null` for a topic that should have none. */
  readonly expect: Readonly<Record<string, string | null | undefined>>;
  readonly concurrency: number;
  readonly baseline: boolean;
  readonly backoff: Backoff;
  readonly leaseDuration: number;
  /** Gets each observation. Does not throw. */
  readonly observe: (event: ReconcileObservation) => void;
  readonly log: Log;
}

const DAY = 24 * 60 * 60_000;

const schema = () =>
  optionsObject({
    every: option<number | string>((every) =>
      parseDuration(every) === undefined
        ? 'must be a number of ms above 0, or a duration such as "90s", "30m", "24h" or "7d"'
        : undefined,
    ).nullish(),
    expect: z.unknown().optional().transform(expectedUrls),
    concurrency: integerFrom(1, 1000, "must be a whole number from 1 to 1000").default(4),
    baseline: z.boolean({ error: "must be true or false" }).default(true),
    backoff: callable<Backoff>().optional(),
    leaseDuration: numberFrom(10, MAX_TIMER, `must be a number from 10 to ${MAX_TIMER}`).default(60_000),
    observe: callable<(event: ReconcileObservation) => unknown>().optional(),
    logger: logger().optional(),
  });

/** @throws InvalidArgumentError naming each argument that is wrong */
export function checkOptions(webhooks: unknown, options: ReconcilerOptions): Settings {
  const before = problemsWithHandler(webhooks, ". forwardTo keeps no snapshots to compare records with");
  const checked = check(schema, options, { before });
  const internals = internalsOf(webhooks)!;
  const { expect, concurrency, baseline, leaseDuration } = checked;
  const every = parseDuration(checked.every ?? DAY)!;

  const log = checked.logger ? new Log(checked.logger) : internals.log;
  // A pass renews a snapshot after half its retention. With longer intervals, the store would forget it before.
  if (every > internals.recordRetention / 2)
    log.warn(
      `the store forgets a snapshot after ${internals.recordRetention} ms, and the reconciler makes a pass only every ${every} ms. Set the handler's recordRetention to at least twice the reconciler's every.`,
    );
  return {
    internals,
    client: internals.client,
    store: internals.store!,
    every,
    expect,
    concurrency,
    baseline,
    backoff: checked.backoff ? safeBackoff(checked.backoff) : defaultBackoff,
    leaseDuration,
    observe: safeObserve(checked.observe, log),
    log,
  };
}

/** Reads `expect`: the URL of each topic. */
function expectedUrls(expect: unknown, context: z.RefinementCtx): Settings["expect"] {
  if (expect === undefined) return {};
  try {
    const input = { endpoints: expect as EnsureInput["endpoints"] };
    // A base URL on loopback allows endpoints on loopback, which tests with the sandbox use.
    return checkEnsureInput(input, new URL("http://127.0.0.1")).urls;
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    for (const { path, message } of error.issues)
      context.addIssue({ code: "custom", path: path.slice(1), message });
    return {};
  }
}

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 60 * 60_000, d: DAY } as const;

/** Converts `"24h"` and the like, or a number of ms, to ms. `undefined` for anything else, and for 0 or less. */
export function parseDuration(given: unknown): number | undefined {
  const match = typeof given === "string" ? /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(given) : null;
  const ms = match ? Number(match[1]) * UNITS[match[2] as keyof typeof UNITS] : given;
  return typeof ms === "number" && Number.isFinite(ms) && ms > 0 ? ms : undefined;
}

const defaultBackoff: Backoff = (attempt) =>
  Math.min(1000 * 2 ** (attempt - 1), 30_000) * (1 - Math.random() / 4);
