import { ACCOUNT_RULE, isAccount } from "../account.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";
import { abortSignal, check, option, optionsObject } from "../options.ts";
import type { ReconcileReport, Settings } from "./options.ts";
import { handled, Passes } from "./passes.ts";
import { Schedule } from "./schedule.ts";
import { dueIn } from "./state.ts";

/** Options of {@link Reconciler.run}. */
export interface RunOptions {
  readonly signal?: AbortSignal | undefined;
  readonly account?: string | undefined;
}

/** Options of {@link Reconciler.watch}. */
export interface WatchOptions {
  readonly account?: string | undefined;
}

/** The reconciler of an app with one account. */
export class OneAccount {
  readonly #settings: Settings;
  readonly #passes: Passes;
  readonly #schedule: Schedule;
  #closed = false;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#passes = new Passes(settings);
    const { every } = settings;
    const isDue = (reading: Parameters<typeof dueIn>[0]): boolean => dueIn(reading, every) === 0;
    this.#schedule = new Schedule(settings, () => this.#passes.makeIfDue(isDue));
  }

  async run(options: RunOptions = {}): Promise<ReconcileReport> {
    const { signal, account } = check(runSchema, options);
    refuseAccount(account);
    assertOpen(this.#closed);
    const { report } = await this.#passes.run(signal);
    await handled(this.#settings, signal);
    return report;
  }

  start(): void {
    if (this.#closed) return;
    this.#settings.internals.start();
    this.#schedule.start();
  }

  async watch(bookingCodes: string | readonly string[], options: WatchOptions = {}): Promise<void> {
    refuseAccount(check(watchSchema, options).account);
    assertOpen(this.#closed);
    await this.#passes.watch(bookingCodes);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#schedule.stop();
    await this.#passes.close();
  }
}

const accountSchema = () =>
  option<string>((value) =>
    isAccount(value) ? undefined : `must be the id of an account: ${ACCOUNT_RULE}`,
  ).optional();
export const watchSchema = () => optionsObject({ account: accountSchema() });
export const runSchema = () => optionsObject({ signal: abortSignal().optional(), account: accountSchema() });

function refuseAccount(account: string | undefined): void {
  if (account !== undefined)
    throw new InvalidArgumentError({
      path: ["account"],
      message: "needs a reconciler with the option `accounts`",
    });
}

export function assertOpen(isClosed: boolean): void {
  if (isClosed) throw new StayhookError("The reconciler is closed. Make another reconciler.");
}
