import type { ReconcileReport } from "./options.ts";

/** Adds up the reports of the accounts. */
export class Sums {
  readonly #beganAt = performance.now();
  readonly #accounts = { checked: 0, failed: 0 };
  readonly #records = { checked: 0, changed: 0, failed: 0 };
  readonly #errors: unknown[] = [];
  #isPartial = false;
  #locked = 0;
  #unreachable = 0;
  #skipped = 0;
  readonly #isAgain: boolean;

  /** @param isAgain - whether an account that was left out makes the run incomplete, so that the next one goes on */
  constructor(isAgain: boolean) {
    this.#isAgain = isAgain;
  }

  get unreachable(): number {
    return this.#unreachable;
  }

  add({ checked, changed, failed, partial, incomplete }: ReconcileReport): void {
    this.#records.checked += checked;
    this.#records.changed += changed;
    this.#records.failed += failed;
    this.#isPartial ||= partial === true;
    if (incomplete === undefined) this.#accounts.checked += 1;
    else if (incomplete === "unreachable") this.#fail();
    else if (incomplete === "locked") this.#locked += 1;
  }

  /** Notes an account that was not tried, because nothing is reached. */
  skip(): void {
    this.#skipped += 1;
    this.#fail();
  }

  #fail(): void {
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
    const isLeft = this.#isAgain && this.#skipped + this.#locked > 0;
    const incomplete = isAborted ? "aborted" : checked > 0 && !isLeft ? undefined : nobody;
    return {
      ...this.#records,
      duration: performance.now() - this.#beganAt,
      ...(this.#isPartial && { partial: true as const }),
      ...(incomplete !== undefined && { incomplete }),
      accounts: { ...this.#accounts },
    };
  }
}
