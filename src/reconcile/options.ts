import * as z from "zod";
import { checkEnsureInput, type EnsureInput } from "../client/config-input.ts";
import { InvalidArgumentError, type Issue } from "../errors.ts";
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
import type { Gates } from "../queue/gates.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { FieldChanges } from "../webhooks/field-changes.ts";
import { type Internals, internalsOf, problemsWithHandler } from "../webhooks/internals.ts";
import type { ReconcilerAlarm } from "../webhooks/observability.ts";
import { safeObserve } from "../webhooks/safe-telemetry.ts";

/**
 * Why a pass did not check everything. `locked` means that another reconciler is making a pass, or has just made one.
 * `unreachable` means that the platform is out of reach. `aborted` means that the signal aborted or the reconciler was
 * closed. The next pass continues where the incomplete pass stopped.
 */
export type Incomplete = "locked" | "unreachable" | "aborted";

/** The result of a pass. With accounts, the result of all passes of one call of `run` has the sums. */
export interface ReconcileReport {
  /** The account, if the report is about the pass of one account. */
  readonly account?: string | undefined;
  /** The accounts, if the report is about all of them. */
  readonly accounts?:
    | {
        /** How many accounts had a pass that got through. */
        readonly checked: number;
        /** How many accounts were skipped, because the platform refused or did not answer, or their id is not valid. */
        readonly failed: number;
      }
    | undefined;
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

/** An observation of a record. */
type RecordObservation = {
  /** The account, in a reconciler with `accounts`. */
  readonly account?: string | undefined;
  /** `booking:<code>` or `listing:<id>`. With accounts, `<account>/` precedes it. */
  readonly ref: string;
};

/** A booking was read, or a listing was found in the list. */
export type CheckedObservation = RecordObservation & {
  /** The kind of the observation. */
  readonly kind: "checked";
  /** The status that was read. */
  readonly status: string;
};

/** The first pass recorded the snapshot of a listing, without a callback. */
export type LearnedObservation = RecordObservation & {
  /** The kind of the observation. */
  readonly kind: "learned";
  /** The status that was read. */
  readonly status: string;
};

/** The record has changed since its last handled event. The store now has an event for the change. */
export type ChangedObservation = RecordObservation & {
  /** The kind of the observation. */
  readonly kind: "changed";
  /** The id of the event that the reconciler added. */
  readonly eventId: string;
  /** The status that was read. It is `undefined` if `watch` could not read the booking. */
  readonly status: string | undefined;
  /** The status in the snapshot. It is `undefined` if the store has no snapshot. */
  readonly previousStatus: string | undefined;
  /** The fields that differ from the snapshot. */
  readonly changes: FieldChanges<string>;
};

/** A read failed, or `track` threw. */
export type ReadFailedObservation = RecordObservation & {
  /** The kind of the observation. */
  readonly kind: "failed";
  /** The record, or `listings` for the list of listings. With accounts, `<account>/` precedes it. */
  readonly ref: string;
  /** The error that was thrown. */
  readonly error: unknown;
};

/**
 * The platform no longer returns a record that the store knows, but returns others. The store now has an event for it,
 * whose callback is `booking.gone` or `listing.gone`.
 */
export type GoneObservation = RecordObservation & {
  /** The kind of the observation. */
  readonly kind: "gone";
  /** The status in the snapshot. */
  readonly previousStatus: string;
};

/**
 * A pass has ended. With accounts, `account` names the account of the pass. The pass of all accounts that `run` makes has
 * an observation of its own, with `accounts`.
 */
export type PassObservation = ReconcileReport & {
  /** The kind of the observation. */
  readonly kind: "pass";
};

/** A scheduled pass failed because the store or the option `accounts` failed. The reconciler tries again. */
export type PassFailedObservation = {
  /** The kind of the observation. */
  readonly kind: "error";
  /** The account whose pass failed. It is `undefined` if the failure is about all accounts. */
  readonly account?: string | undefined;
  /** The error that was thrown. */
  readonly error: unknown;
};

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

/** The ids of the accounts, as the option `accounts` gives them. */
export type AccountIds = Iterable<string> | AsyncIterable<string>;

/** The endpoints that a webhook configuration should have: a URL for each topic, or one URL for all topics. */
export type ExpectedEndpoints = EnsureInput["endpoints"];

/** Options of {@link createReconciler}. */
export interface ReconcilerOptions {
  /**
   * Gives the ids of all accounts, as an array or another iterable, or a promise of it. The reconciler calls it before
   * passes, so that it knows accounts that have joined or left. Required if the handler has `accountFrom`, and refused
   * otherwise.
   *
   * Each account has passes of its own. `start()` spreads the passes over `every` by a hash of the account's id, so that
   * they do not all begin at once. If one account fails, the others go on.
   */
  readonly accounts?: (() => AccountIds | PromiseLike<AccountIds>) | undefined;
  /**
   * The interval at which `start()` makes passes: ms, or a text such as `"90s"`, `"30m"`, `"1.5h"` or `"7d"`. All
   * machines that share the store make one pass per interval in total. Use at most half the handler's `snapshotRetention`. Default `"24h"`.
   */
  readonly every?: number | string | undefined;
  /**
   * The endpoints that the webhook configuration should have: a URL for each topic, or one URL for all topics. Takes
   * the same values as `webhookConfig.ensure`. If the configuration differs, `observe` gets an observation of the
   * kind `drift` in each pass. With `accounts`, it is a function that gives the endpoints of an account, or a promise of
   * them.
   */
  readonly expectedEndpoints?:
    | ExpectedEndpoints
    | ((account: string) => ExpectedEndpoints | undefined | PromiseLike<ExpectedEndpoints | undefined>)
    | undefined;
  /**
   * How many records the reconciler reads at once. With `accounts`, also how many accounts have a pass at once; each of
   * them reads this many records at once. Default 4.
   */
  readonly concurrency?: number | undefined;
  /** How many requests the reconciler begins within a second at most, for each account. May be a fraction. Default 10. */
  readonly rate?: number | undefined;
  /**
   * How long after departure passes still read a booking, for example because a refund may cancel it: ms, or a text such
   * as `"30d"`. Default `"7d"`.
   */
  readonly lookBack?: number | string | undefined;
  /** Whether the first pass only records unknown listings, without a callback. Default `true`. */
  readonly baseline?: boolean | undefined;
  /** Called with each observation. If the function throws, the reconciler logs the error and continues. */
  readonly observe?: ((event: ReconcileObservation) => unknown) | undefined;
  /** Gets the log lines of the reconciler. Default: the handler's logger. */
  readonly logger?: Logger | undefined;
}

/** The expected URL of each topic; `null` for a topic that should have no URL. */
export type ExpectedUrls = Readonly<Record<string, string | null | undefined>>;

/** An account that has passes. `undefined` in an app without accounts. */
export type Account = string | undefined;

/** The checked {@link ReconcilerOptions} with their defaults. */
export interface Settings extends Omit<Checked, "expectedEndpoints" | "observe" | "logger"> {
  readonly internals: Internals;
  /** The account that these settings are for. See {@link settingsOf}. */
  readonly account: Account;
  /** The client of the account. */
  readonly client: Internals["client"];
  readonly store: EventStore<unknown>;
  readonly gates: Gates;
  /** Rejects if the user's function throws, or gives no endpoints. */
  readonly expectedEndpoints: () => Promise<ExpectedUrls>;
  /** Gets each observation. Does not throw. */
  readonly observe: (event: ReconcileObservation) => void;
  readonly log: Log;
}

const DAY = 24 * 60 * 60_000;

const schema = () =>
  optionsObject({
    every: or(durationFrom(1, Number.MAX_SAFE_INTEGER), DAY),
    accounts: callable<NonNullable<ReconcilerOptions["accounts"]>>().optional(),
    expectedEndpoints: z.unknown().optional(),
    concurrency: integerFrom(1, 1000, "must be a whole number from 1 to 1000").default(4),
    rate: numberFrom(0.001, 10_000, "must be a number from 0.001 to 10000").default(10),
    lookBack: or(durationFrom(0, Number.MAX_SAFE_INTEGER), 7 * DAY),
    baseline: z.boolean({ error: "must be true or false" }).default(true),
    observe: callable<(event: ReconcileObservation) => unknown>().optional(),
    logger: logger().optional(),
  });

type Checked = z.output<ReturnType<typeof schema>>;

/** @throws InvalidArgumentError naming each argument that is wrong */
export function checkOptions(webhooks: unknown, options: ReconcilerOptions): Settings {
  const internals = internalsOf(webhooks)!;
  const before = [
    ...problemsWithHandler(webhooks, ", because forwardTo stores no snapshots, which the reconciler needs"),
    ...(internals ? problemsWithAccounts(internals, options) : []),
  ];
  const { expectedEndpoints, observe, logger, ...checked } = check(schema, options, { before });
  const { every } = checked;
  const log = logger ? new Log(logger) : internals.log;
  // A pass renews each snapshot that is older than half the retention. If the time between two passes is longer than
  // this half, the store may delete a snapshot before a pass renews it.
  if (every > internals.snapshotRetention / 2)
    log.warn(
      `the store deletes a snapshot after ${internals.snapshotRetention} ms, which is too soon for a reconciler that makes a pass every ${every} ms. Set the handler's \`snapshotRetention\` to at least twice the reconciler's \`every\``,
    );
  return {
    ...checked,
    internals,
    account: undefined,
    client: internals.client,
    store: internals.store!,
    gates: internals.gates!,
    expectedEndpoints: expectedOf(expectedEndpoints),
    observe: safeObserve(observe, log),
    log,
  };
}

/** Returns the settings for the passes of one account. */
export function settingsOf(settings: Settings, account: Account): Settings {
  if (account === undefined) return settings;
  const { client, observe, expectedEndpoints } = settings;
  return {
    ...settings,
    account,
    client: client.account(account),
    expectedEndpoints: (expectedEndpoints as (account: string) => Promise<ExpectedUrls>).bind(null, account),
    observe: (event) => observe({ ...event, account }),
  };
}

function problemsWithAccounts(
  { accountFrom }: Internals,
  options: Pick<ReconcilerOptions, "accounts" | "expectedEndpoints">,
): Issue[] {
  // `check` reports options that are no object.
  if (typeof options !== "object" || options === null) return [];
  const { accounts, expectedEndpoints } = options;
  const issues: Issue[] = [];
  const hasAccounts = accountFrom !== undefined;
  if (hasAccounts && accounts === undefined)
    issues.push({
      path: ["accounts"],
      message:
        "is required, because the handler has `accountFrom`: a function that gives the ids of your accounts",
    });
  if (!hasAccounts && accounts !== undefined)
    issues.push({ path: ["accounts"], message: "needs a handler with the option `accountFrom`" });
  const isFunction = typeof expectedEndpoints === "function";
  if (hasAccounts && expectedEndpoints !== undefined && !isFunction)
    issues.push({
      path: ["expectedEndpoints"],
      message:
        "must be a function that gives the endpoints of an account, because each account has a URL of its own",
    });
  if (!hasAccounts && isFunction)
    issues.push({
      path: ["expectedEndpoints"],
      message: "may be a function only in a reconciler with `accounts`",
    });
  if (!hasAccounts && !isFunction && expectedEndpoints !== undefined)
    issues.push(...problemsWithEndpoints(expectedEndpoints));
  return issues;
}

function problemsWithEndpoints(given: ExpectedEndpoints): readonly Issue[] {
  try {
    expectedUrls(given);
    return [];
  } catch (error) {
    if (error instanceof InvalidArgumentError) return error.issues;
    throw error;
  }
}

function expectedOf(given: unknown): (account?: string) => Promise<ExpectedUrls> {
  return async (account) =>
    expectedUrls(
      (typeof given === "function" ? await given(account) : given) as ExpectedEndpoints | undefined,
    );
}

/**
 * Converts `expectedEndpoints` to the URL of each topic.
 *
 * @throws InvalidArgumentError
 */
function expectedUrls(endpoints: ExpectedEndpoints | undefined): ExpectedUrls {
  if (endpoints === undefined) return {};
  try {
    // In tests with the sandbox, the endpoints are on loopback. They are valid only with a base URL on loopback.
    return checkEnsureInput({ endpoints }, new URL("http://127.0.0.1")).urls;
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    throw new InvalidArgumentError(
      error.issues.map(({ path, message }) => ({ path: ["expectedEndpoints", ...path.slice(1)], message })),
    );
  }
}
