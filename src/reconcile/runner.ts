import * as z from "zod";
import { ACCOUNT_RULE, checkAccount, isAccount } from "../account.ts";
import { createSlots, forEach, untilAborted } from "../async.ts";
import { InvalidArgumentError } from "../errors.ts";
import { abortSignal, check, option, optionsObject } from "../options.ts";
import { AccountList } from "./account-list.ts";
import { handled } from "./handle-events.ts";
import { closedError, OneAtATime } from "./one-at-a-time.ts";
import { type Account, type ReconcileReport, type Settings, settingsOf } from "./options.ts";
import { Passes } from "./passes.ts";
import { Schedule } from "./schedule.ts";
import { beginAgainOfAll, endAgainOfAll, readState } from "./state.ts";
import { Sums } from "./sums.ts";

const accountSchema = () =>
  option<string>((value) =>
    isAccount(value) ? undefined : `must be the id of an account: ${ACCOUNT_RULE}`,
  ).optional();
const watchSchema = () => optionsObject({ account: accountSchema() });
const runSchema = () =>
  optionsObject({
    signal: abortSignal().optional(),
    account: accountSchema(),
    again: z.boolean({ error: "must be true or false" }).default(false),
  });

/** Makes passes, which each account has by itself. Without accounts, the only one is `undefined`. */
export class Runner {
  readonly #settings: Settings;
  readonly #list: AccountList;
  readonly #schedule: Schedule;
  /** The room for passes of `run()` and of the schedule. */
  readonly #slots;
  /** The accounts that have a pass, or bookings to remember. */
  readonly #passes = new Map<Account, Passes>();
  readonly #all = new OneAtATime<ReconcileReport>();
  #closed = false;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#slots = createSlots(settings.concurrency);
    this.#list = new AccountList(settings);
    this.#schedule = new Schedule(settings, {
      list: this.#list,
      inSlot: (work) => this.#slots.run(work),
      pass: (account, isDue) => this.#passOf(account, (passes) => passes.make({ isDue })),
    });
  }

  async run(options: object = {}): Promise<ReconcileReport> {
    const { signal, account, again } = check(runSchema, options);
    this.#assertUsable(account);
    const isOne = !this.#settings.accounts || account !== undefined;
    const report = await (isOne
      ? this.#passOne(account, again ? { runId: undefined } : undefined, signal)
      : this.#all.run(again ? "again" : "pass", signal, (stop) => this.#passAll(again, stop)));
    await handled(this.#settings, signal);
    return report;
  }

  start(): void {
    if (this.#closed) return;
    this.#settings.internals.start();
    this.#schedule.start();
  }

  async watch(bookingCodes: string | readonly string[], options: object = {}): Promise<void> {
    const { account } = check(watchSchema, options);
    if (this.#settings.accounts) checkAccount(account);
    this.#assertUsable(account);
    await this.#passOf(account, (passes) => passes.watch(bookingCodes));
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#schedule.stop();
    await Promise.all([this.#all, ...this.#passes.values()].map((each) => each.close()));
  }

  #assertUsable(account: Account): void {
    if (account !== undefined && !this.#settings.accounts)
      throw new InvalidArgumentError({
        path: ["account"],
        message: "needs a reconciler with the option `accounts`",
      });
    if (this.#closed) throw closedError();
  }

  /** Calls `use` with the passes of an account, and forgets them if nothing has to be remembered. */
  async #passOf<T>(account: Account, use: (passes: Passes) => Promise<T>): Promise<T> {
    const passes = this.#passes.get(account) ?? new Passes(settingsOf(this.#settings, account));
    this.#passes.set(account, passes);
    try {
      return await use(passes);
    } finally {
      if (passes.isIdle && this.#passes.get(account) === passes) this.#passes.delete(account);
    }
  }

  async #passOne(
    account: Account,
    again: { readonly runId: string | undefined } | undefined,
    signal: AbortSignal | undefined,
  ): Promise<ReconcileReport> {
    return this.#passOf(account, async (passes) => (await passes.make({ again }, signal)).report);
  }

  async #passAll(isAgain: boolean, signal: AbortSignal): Promise<ReconcileReport> {
    const { gates, concurrency, observe, store } = this.#settings;
    const sums = new Sums(isAgain);
    const listed = await untilAborted(this.#list.get(-1), signal).catch((error) => {
      if (!signal.aborted) throw error;
    });
    if (!listed) return sums.report(true);
    const { ids, invalid } = listed;
    sums.invalid(invalid);
    const runId = isAgain ? await beginAgainOfAll(store) : undefined;
    await forEach(ids, concurrency, (account) =>
      this.#slots.run(async () => {
        if (signal.aborted) return;
        // If nothing is reached, each further account would wait for an answer in vain.
        const isOut = sums.unreachable > 0 && gates.isAllShut;
        if (isOut) sums.skip();
        else await this.#addTo(sums, account, runId, signal);
      }),
    );
    const report = sums.report(signal.aborted);
    if (runId !== undefined && report.incomplete === undefined) await endAgainOfAll(store, runId);
    observe({ kind: "pass", ...report });
    return report;
  }

  async #addTo(sums: Sums, account: Account, runId: string | undefined, signal: AbortSignal): Promise<void> {
    const { store, log, observe } = this.#settings;
    try {
      const last = runId === undefined ? null : (await readState(store, account)).state.again;
      // Another machine, or the run that this one continues, has done this account.
      if (last?.done && last.id === runId)
        return sums.add({ checked: 0, changed: 0, failed: 0, duration: 0 });
      sums.add(await this.#passOne(account, runId === undefined ? undefined : { runId }, signal));
    } catch (error) {
      sums.fail(error);
      observe({ kind: "error", account, error });
      const message = `the reconciler's pass of account ${account} failed because of the store`;
      log.limited("schedule", "error", message, { error, account });
    }
  }
}
