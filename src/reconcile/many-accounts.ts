import { checkAccount } from "../account.ts";
import { createSlots, forEach } from "../async.ts";
import { check } from "../options.ts";
import { AccountList } from "./account-list.ts";
import { AccountSchedule } from "./account-schedule.ts";
import { assertOpen, type RunOptions, runSchema, type WatchOptions, watchSchema } from "./one-account.ts";
import { type ReconcileReport, type Settings, settingsOf } from "./options.ts";
import { handled, Passes } from "./passes.ts";

/** The reconciler of an app with many accounts. Each account has passes of its own. */
export class ManyAccounts {
  readonly #settings: Settings;
  readonly #list: AccountList;
  readonly #schedule: AccountSchedule;
  /** The room for passes of `run()` and of the schedule. */
  readonly #slots;
  /** The accounts that have a pass, or bookings to remember. */
  readonly #passes = new Map<string, Passes>();
  readonly #closing = new AbortController();
  #current: { readonly stop: AbortController; readonly made: Promise<ReconcileReport> } | undefined;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#slots = createSlots(settings.concurrency);
    this.#list = new AccountList(settings);
    this.#schedule = new AccountSchedule(settings, {
      list: this.#list,
      inSlot: (work) => this.#slots.run(work),
      pass: (account, isDue) => this.#passOf(account, (passes) => passes.makeIfDue(isDue)),
    });
  }

  async run(options: RunOptions = {}): Promise<ReconcileReport> {
    const { signal, account } = check(runSchema, options);
    assertOpen(this.#closing.signal.aborted);
    const report = await (account === undefined
      ? this.#runAll(signal)
      : this.#passOf(account, async (passes) => (await passes.run(signal)).report));
    await handled(this.#settings, signal);
    return report;
  }

  start(): void {
    if (this.#closing.signal.aborted) return;
    this.#settings.internals.start();
    this.#schedule.start();
  }

  async watch(bookingCodes: string | readonly string[], options: WatchOptions = {}): Promise<void> {
    const account = checkAccount(check(watchSchema, options).account);
    assertOpen(this.#closing.signal.aborted);
    await this.#passOf(account, (passes) => passes.watch(bookingCodes));
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#schedule.stop();
    this.#current?.stop.abort();
    await Promise.all([...this.#passes.values()].map((passes) => passes.close()));
    await Promise.allSettled([this.#current?.made]);
  }

  /** Calls `use` with the passes of an account, and forgets them if nothing has to be remembered. */
  async #passOf<T>(account: string, use: (passes: Passes) => Promise<T>): Promise<T> {
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

  async #addTo(sums: Sums, account: string, signal: AbortSignal): Promise<void> {
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

/** Adds up the reports of the accounts. */
class Sums {
  readonly #beganAt = performance.now();
  readonly #accounts = { checked: 0, failed: 0 };
  readonly #records = { checked: 0, changed: 0, failed: 0 };
  readonly #errors: unknown[] = [];
  #isPartial = false;
  #locked = 0;
  #unreachable = 0;

  get unreachable(): number {
    return this.#unreachable;
  }

  add({ checked, changed, failed, partial, incomplete }: ReconcileReport): void {
    this.#records.checked += checked;
    this.#records.changed += changed;
    this.#records.failed += failed;
    this.#isPartial ||= partial === true;
    if (incomplete === undefined) this.#accounts.checked += 1;
    else if (incomplete === "unreachable") this.skip();
    else if (incomplete === "locked") this.#locked += 1;
  }

  /** Notes an account that could not be read. */
  skip(): void {
    this.#unreachable += 1;
    this.#accounts.failed += 1;
  }

  /** Notes ids that are not valid. */
  invalid(count: number): void {
    this.#accounts.failed += count;
  }

  fail(error: unknown): void {
    this.#errors.push(error);
    this.#accounts.failed += 1;
  }

  /** @throws the error of the store, if it failed for each account */
  report(isAborted: boolean): ReconcileReport {
    const { checked } = this.#accounts;
    const others = checked + this.#locked + this.#unreachable;
    if (this.#errors.length > 0 && others === 0) throw this.#errors[0];
    // An account that could not be read does not make the pass of the others incomplete.
    const nobody = this.#unreachable > 0 ? "unreachable" : this.#locked > 0 ? "locked" : undefined;
    const incomplete = isAborted ? "aborted" : checked > 0 ? undefined : nobody;
    return {
      ...this.#records,
      duration: performance.now() - this.#beganAt,
      ...(this.#isPartial && { partial: true as const }),
      ...(incomplete !== undefined && { incomplete }),
      accounts: { ...this.#accounts },
    };
  }
}
