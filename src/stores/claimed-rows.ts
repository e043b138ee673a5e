import type { ClaimedRow } from "./outcomes.ts";

/** A process hardly holds more leases at once. */
const MOST = 10_000;

/** The rows of the claims of this handle, so that `settle` need not read them again. Forgets the oldest above {@link MOST}. */
export class ClaimedRows {
  readonly #rows = new Map<string, ClaimedRow>();

  set(lease: string, row: ClaimedRow): void {
    if (this.#rows.size >= MOST) this.#rows.delete(this.#rows.keys().next().value!);
    this.#rows.set(lease, row);
  }

  get(lease: string): ClaimedRow | undefined {
    return this.#rows.get(lease);
  }

  delete(lease: string): void {
    this.#rows.delete(lease);
  }
}
