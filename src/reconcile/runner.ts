import { ACCOUNT_RULE, checkAccount, isAccount } from "../account.ts";
import { createSlots, forEach } from "../async.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";
import { abortSignal, check, option, optionsObject } from "../options.ts";
import { AccountList } from "./account-list.ts";
import { type Account, type ReconcileReport, type Settings, settingsOf } from "./options.ts";
import { handled, Passes } from "./passes.ts";
import { Schedule } from "./schedule.ts";
import { Sums } from "./sums.ts";

const accountSchema = () =>
  option<string>((value) =>
    isAccount(value) ? undefined : `must be the id of an account: ${ACCOUNT_RULE}`,
  ).optional();
const watchSchema = () => optionsObject({ account: accountSchema() });
const runSchema = () => optionsObject({ signal: abortSignal().optional(), account: accountSchema() });

/** Makes passes, which each account has by itself. Without accounts, the only one is `undefined`. */
export class Runner {
  readonly #settings: Settings;
  readonly #list: AccountList;
  readonly #schedule: Schedule;
  /** The room for passes of `run()` and of the schedule. */
  readonly #slots;
  /** The accounts that have a pass, or bookings to remember. */
  readonly #passes = new Map<Account, Passes>();
  readonly #closing = new AbortController();
  #current: { readonly stop: AbortController; readonly made: Promise<ReconcileReport> } | undefined;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#slots = createSlots(settings.concurrency);
    this.#list = new AccountList(settings);
    this.#schedule = new Schedule(settings, {
      list: this.#list,
      inSlot: (work) => this.#slots.run(work),
      pass: (account, isDue) => this.#passOf(account, (passes) => passes.makeIfDue(isDue)),
    });
  }

  async run(options: object = {}): Promise<ReconcileReport> {
    const { signal, account } = check(runSchema, options);
    this.#assertUsable(account);
    const isOne = !this.#settings.accounts || account !== undefined;
    const report = await (isOne
      ? this.#passOf(account, async (passes) => (await passes.run(signal)).report)
      : this.#runAll(signal));
    await handled(this.#settings, signal);
    return report;
  }

  start(): void {
    if (this.#closing.signal.aborted) return;
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
    this.#closing.abort();
    this.#schedule.stop();
    this.#current?.stop.abort();
    await Promise.all([...this.#passes.values()].map((passes) => passes.close()));
    await Promise.allSettled([this.#current?.made]);
  }

  #assertUsable(account: Account): void {
    if (account !== undefined && !this.#settings.accounts)
      throw new InvalidArgumentError({
        path: ["account"],
        message: "needs a reconciler with the option `accounts`",
      });
    if (this.#closing.signal.aborted)
      throw new StayhookError("The reconciler is closed. Make another reconciler.");
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

  /** Makes the passes of all accounts, or waits for those that are being made. */
  async #runAll(signal: AbortSignal | undefined): Promise<ReconcileReport> {
    if (this.#current) return this.#current.made;
    const stop = new AbortController();
    const abort = (): void => stop.abort();
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) abort();
    const made = this.#passAll(stop.signal).finally(() => {
      this.#current = undefined;
      signal?.removeEventListener("abort", abort);
    });
    this.#current = { stop, made };
    return made;
  }

  async #passAll(signal: AbortSignal): Promise<ReconcileReport> {
    const { breaker, concurrency, observe } = this.#settings;
    const sums = new Sums();
    const { ids, invalid } = await this.#list.get(-1);
    sums.invalid(invalid);
    await forEach(ids, concurrency, (account) =>
      this.#slots.run(async () => {
        if (signal.aborted) return;
        // If nothing is reached, each further account would wait for an answer in vain.
        const isOut = sums.unreachable > 0 && breaker.isAllShut && breaker.waitAt(performance.now()) > 0;
        if (isOut) sums.skip();
        else await this.#addTo(sums, account, signal);
      }),
    );
    const report = sums.report(signal.aborted);
    observe({ kind: "pass", ...report });
    return report;
  }

  async #addTo(sums: Sums, account: Account, signal: AbortSignal): Promise<void> {
    try {
      const { report } = await this.#passOf(account, (passes) => passes.run(signal));
      sums.add(report);
    } catch (error) {
      const { log, observe } = this.#settings;
      sums.fail(error);
      observe({ kind: "error", account, error });
      const message = `the reconciler's pass of account ${account} failed because of the store`;
      log.limited("schedule", "error", message, { error, account });
    }
  }
}
