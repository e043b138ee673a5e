import type { WebhookHandler } from "../webhooks/handler.ts";
import { checkOptions, type ReconcileReport, type ReconcilerOptions } from "./options.ts";
import { Runner } from "./runner.ts";

export type { ReconcileObservation, ReconcileReport, ReconcilerOptions } from "./options.ts";

/** Finds changes that no notification reported. Made by {@link createReconciler}. The functions need no `this`. */
export interface Reconciler {
  /**
   * Makes a pass now, even if no pass is due yet. Call `run` from a cron job. Continues where the last incomplete pass
   * stopped. If this reconciler is already making a pass, waits for that pass. Resolves when each due
   * event has had an attempt. If the handler has `autoStart: false`, resolves when the pass ends.
   *
   * With `accounts`, makes the passes of all accounts, at most `concurrency` at once, and resolves to one report with
   * the sums. An account whose pass fails is reported and skipped.
   *
   * @throws an error of the store; an error of `accounts`; StayhookError after `close`; InvalidArgumentError for an
   * invalid `signal`, `account` or `again`
   */
  run(options?: {
    /**
     * When the signal aborts, the pass ends early, and `run` resolves to the report so far. A pass that began before
     * the call of `run` does not end early.
     */
    readonly signal?: AbortSignal | undefined;
    /**
     * Makes only the pass of this account, at once, for example when the account joins. `accounts` need not give it yet.
     * Refused in a reconciler without `accounts`.
     */
    readonly account?: string | undefined;
    /**
     * If `true`, the callback runs for each record in the store, changed or not, and for each listing of the list: to fill
     * a new table, or after a correction of your code. The event has `source: "reconcile"`, and `changed: false` if the
     * record has not changed. Records that are gone are left out. Reads at most `rate` records a second. The next run with
     * `again` goes on where one that was killed or incomplete stopped, on any machine. `checked` of the report counts the
     * records. Default `false`.
     *
     * @example
     * ```ts
     * const { checked, incomplete } = await reconciler.run({ again: true });
     * ```
     */
    readonly again?: boolean | undefined;
  }): Promise<ReconcileReport>;
  /**
   * Makes a pass in each interval of `every`, until {@link close}. All machines that share the store make one pass
   * per interval in total. If the last pass is older than `every`, a pass begins within seconds. `observe` gets the
   * report of each pass. Also starts the handler, unless the handler has `autoStart: false`. Does not keep the
   * process alive.
   *
   * With `accounts`, each account has its own time within `every`. The first pass of an account waits for this time,
   * unless you call `run({ account })`.
   */
  start(): void;
  /**
   * Adds bookings that no notification has named. Each booking that is new to the handler, or has changed, gets an event,
   * past stays and declined bookings included. Resolves when the events are in the store. One call for each booking is enough:
   * once its event is handled, later passes read the booking again. A booking that you erase stays erased until you call
   * `watch` again, or a notification names it.
   *
   * @param bookingCodes - one code or several
   * @param options - with `accounts`, `account` is required: the account of the bookings
   * @throws NotFoundError or another API error if the platform does not return a booking; InvalidArgumentError for an
   * invalid code or account; StayhookError after `close`; an error of the store. If one booking fails, still adds the other
   * bookings. Does not throw in an outage
   */
  watch(
    bookingCodes: string | readonly string[],
    options?: {
      /** The account of the bookings. Required with `accounts`, and refused without. */
      readonly account?: string | undefined;
    },
  ): Promise<void>;
  /**
   * Stops the current pass and starts no new pass. A call of {@link watch} that has not ended rejects. Close the
   * handler and the store afterwards.
   *
   * @example
   * ```ts
   * server.close();
   * await reconciler.close();
   * await webhooks.close();
   * await store.close();
   * ```
   */
  close(): Promise<void>;
  /** Calls {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Makes a reconciler, which finds changes whose notifications never arrived. It reads the list of listings and each
 * known booking that can still change. Each change becomes an event with `source: "reconcile"`, which the handler
 * handles like any other event. The reconciler uses the client and the store of the handler.
 *
 * @throws InvalidArgumentError naming each wrong argument, such as a handler with `forwardTo`
 * @example
 * ```ts
 * import { createReconciler } from "stayhook/reconcile";
 *
 * const reconciler = createReconciler(webhooks, { every: "24h" });
 * reconciler.start();
 * ```
 */
export function createReconciler(webhooks: WebhookHandler, options: ReconcilerOptions = {}): Reconciler {
  const runner = new Runner(checkOptions(webhooks, options));
  return {
    run: (runOptions) => runner.run(runOptions),
    start: () => runner.start(),
    watch: (bookingCodes, watchOptions) => runner.watch(bookingCodes, watchOptions),
    close: () => runner.close(),
    [Symbol.asyncDispose]: () => runner.close(),
  };
}
