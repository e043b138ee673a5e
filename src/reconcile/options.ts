import * as z from "zod";
import { checkEnsureInput, type EnsureInput } from "../client/webhook-config.ts";
import { InvalidArgumentError } from "../errors.ts";
import { Log, type Logger } from "../logger.ts";
import {
  callable,
  check,
  durationFrom,
  integerFrom,
  logger,
  numberFrom,
  optionsObject,
  or,
} from "../options.ts";
import type { CircuitBreaker } from "../queue/circuit-breaker.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { FieldChanges } from "../webhooks/field-changes.ts";
import { type Internals, internalsOf, problemsWithHandler } from "../webhooks/internals.ts";
import { type ReconcilerAlarm, safeObserve } from "../webhooks/observability.ts";

/**
 * Why a pass did not check everything. `locked` means that another reconciler is making a pass, or has just made one.
 * `unreachable` means that the platform is out of reach. `aborted` means that the signal aborted or the reconciler was
 * closed. The next pass continues where the incomplete pass stopped.
 */
export type Incomplete = "locked" | "unreachable" | "aborted";

/** The result of a pass. */
export interface ReconcileReport {
  /** How many listings and bookings were read and compared. */
  readonly checked: number;
  /** How many events the pass added for records that changed or are gone. Includes events that `watch` added since the last pass. */
  readonly changed: number;
  /** How many times a read failed or `track` threw. Each invalid row of the list also counts. */
  readonly failed: number;
  /** How long the pass took, without the callbacks, ms. */
  readonly duration: number;
  /** Present if the list of listings may have pages that the client did not read. See the client option `nextPage`. */
  readonly partial?: true;
  /** Why the pass did not check everything. Absent if the pass checked everything. */
  readonly incomplete?: Incomplete;
}

/** A booking was read, or a listing was found in the list. */
export interface CheckedObservation {
  readonly kind: "checked";
  /** `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
  /** The status that was read. */
  readonly status: string;
}

/** The first pass recorded the snapshot of a listing, without a callback. */
export interface LearnedObservation {
  readonly kind: "learned";
  /** `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
  /** The status that was read. */
  readonly status: string;
}

/** The record has changed since its last handled event. The store now has an event for the change. */
export interface ChangedObservation {
  readonly kind: "changed";
  /** `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
  /** The id of the event that the reconciler added. */
  readonly eventId: string;
  /** The status that was read. It is `undefined` if `watch` could not read the booking. */
  readonly status: string | undefined;
  /** The status in the snapshot. It is `undefined` if the store has no snapshot. */
  readonly previousStatus: string | undefined;
  /** The fields that differ from the snapshot. */
  readonly changes: FieldChanges<string>;
}

/** A read failed, or `track` threw. */
export interface ReadFailedObservation {
  readonly kind: "failed";
  /** `booking:<code>` or `listing:<id>`. For the list of listings, `ref` is `listings`. */
  readonly ref: string;
  /** The error that was thrown. */
  readonly error: unknown;
}

/**
 * The platform no longer returns a record that the store knows, but returns others. The store now has an event for it,
 * whose callback is `booking.gone` or `listing.gone`.
 */
export interface GoneObservation {
  readonly kind: "gone";
  /** `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
  /** The status in the snapshot. */
  readonly previousStatus: string;
}

/** A pass has ended. */
export interface PassObservation extends ReconcileReport {
  readonly kind: "pass";
}

/** A scheduled pass failed because the store failed. The reconciler tries again. */
export interface PassFailedObservation {
  readonly kind: "error";
  /** The error that was thrown. */
  readonly error: unknown;
}

/** The argument of {@link ReconcilerOptions.observe}. `kind` narrows its type. */
export type ReconcileObservation =
  | ReconcilerAlarm
  | CheckedObservation
  | ChangedObservation
  | LearnedObservation
  | ReadFailedObservation
  | GoneObservation
  | PassObservation
  | PassFailedObservation;

/** Options of {@link createReconciler}. */
export interface ReconcilerOptions {
  /**
   * The interval at which `start()` makes passes: ms, or a text such as `"90s"`, `"30m"`, `"1.5h"` or `"7d"`. All
   * machines that share the store make one pass per interval in total. Use at most half the handler's `snapshotRetention`. Default `"24h"`.
   */
  readonly every?: number | string | undefined;
  /**
   * The endpoints that the webhook configuration should have: a URL for each topic, or one URL for all topics. Takes
   * the same values as `webhookConfig.ensure`. If the configuration differs, `observe` gets an observation of the
   * kind `drift` in each pass.
   */
  readonly expectedEndpoints?: EnsureInput["endpoints"] | undefined;
  /** How many records the reconciler reads at once. Default 4. */
  readonly concurrency?: number | undefined;
  /** How many requests the reconciler begins within a second at most. May be a fraction. Default 10. */
  readonly rate?: number | undefined;
  /** Whether the first pass only records unknown listings, without a callback. Default `true`. */
  readonly baseline?: boolean | undefined;
  /** Called with each observation. If the function throws, the reconciler logs the error and continues. */
  readonly observe?: ((event: ReconcileObservation) => unknown) | undefined;
  /** Gets the log lines of the reconciler. Default: the handler's logger. */
  readonly logger?: Logger | undefined;
}

/** The checked {@link ReconcilerOptions} with their defaults. */
export interface Settings {
  readonly internals: Internals;
  readonly client: Internals["client"];
  readonly store: EventStore<unknown>;
  readonly breaker: CircuitBreaker;
  readonly every: number;
  /** The expected URL of each topic; `null` for a topic that should have no URL. */
  readonly expectedEndpoints: Readonly<Record<string, string | null | undefined>>;
  readonly concurrency: number;
  readonly rate: number;
  readonly baseline: boolean;
  /** Gets each observation. Does not throw. */
  readonly observe: (event: ReconcileObservation) => void;
  readonly log: Log;
}

const DAY = 24 * 60 * 60_000;

const schema = () =>
  optionsObject({
    every: or(durationFrom(1, Number.MAX_SAFE_INTEGER), DAY),
    expectedEndpoints: z.unknown().optional().transform(expectedUrls),
    concurrency: integerFrom(1, 1000, "must be a whole number from 1 to 1000").default(4),
    rate: numberFrom(0.001, 10_000, "must be a number from 0.001 to 10000").default(10),
    baseline: z.boolean({ error: "must be true or false" }).default(true),
    observe: callable<(event: ReconcileObservation) => unknown>().optional(),
    logger: logger().optional(),
  });

/** @throws InvalidArgumentError naming each argument that is wrong */
export function checkOptions(webhooks: unknown, options: ReconcilerOptions): Settings {
  const before = problemsWithHandler(
    webhooks,
    ", because forwardTo stores no snapshots, which the reconciler needs",
  );
  const checked = check(schema, options, { before });
  const internals = internalsOf(webhooks)!;
  const { every, expectedEndpoints, concurrency, rate, baseline } = checked;
  const log = checked.logger ? new Log(checked.logger) : internals.log;
  // A pass renews each snapshot that is older than half the retention. If the time between two passes is longer than
  // this half, the store may delete a snapshot before a pass renews it.
  if (every > internals.snapshotRetention / 2)
    log.warn(
      `the store deletes a snapshot after ${internals.snapshotRetention} ms, which is too soon for a reconciler that makes a pass every ${every} ms. Set the handler's \`snapshotRetention\` to at least twice the reconciler's \`every\``,
    );
  return {
    internals,
    client: internals.client,
    store: internals.store!,
    breaker: internals.breaker!,
    every,
    expectedEndpoints,
    concurrency,
    rate,
    baseline,
    observe: safeObserve(checked.observe, log),
    log,
  };
}

/** Converts `expectedEndpoints` to the URL of each topic. */
function expectedUrls(given: unknown, context: z.RefinementCtx): Settings["expectedEndpoints"] {
  if (given === undefined) return {};
  try {
    const input = { endpoints: given as EnsureInput["endpoints"] };
    // In tests with the sandbox, the endpoints are on loopback. They are valid only with a base URL on loopback.
    return checkEnsureInput(input, new URL("http://127.0.0.1")).urls;
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    for (const { path, message } of error.issues)
      context.addIssue({ code: "custom", path: path.slice(1), message });
    return {};
  }
}
