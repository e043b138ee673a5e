/** What was measured, by name, over alternating rounds. */
export class Rounds {
  readonly #unit: string;
  readonly #values = new Map<string, number[]>();

  constructor(unit: string) {
    this.#unit = unit;
  }

  add(name: string, value: number): void {
    this.#values.set(name, [...(this.#values.get(name) ?? []), value]);
  }

  /** Prints each name's median, and how it compares to the first name's. */
  print(): void {
    const medians = [...this.#values].map(([name, values]) => [name, median(values)] as const);
    const base = medians[0]?.[1] ?? Number.NaN;
    const width = Math.max(...medians.map(([name]) => name.length));
    for (const [name, value] of medians) {
      const shown = value.toLocaleString("en", { maximumFractionDigits: value < 100 ? 1 : 0 });
      console.log(
        `  ${name.padEnd(width)}  ${shown.padStart(8)} ${this.#unit}   × ${(value / base).toFixed(2)}`,
      );
    }
  }
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? 0) + (sorted[Math.ceil(middle)] ?? 0)) / 2;
}
