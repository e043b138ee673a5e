export interface Row {
  readonly cells: Readonly<Record<string, string>>;
  /** Whether a figure is beyond its limit. */
  readonly failed: boolean;
}

export function print(title: string, rows: readonly Row[]): void {
  const columns = Object.keys(rows[0]?.cells ?? {});
  const lines = [columns, ...rows.map(({ cells }) => columns.map((column) => cells[column] ?? ""))];
  const widths = columns.map((_, n) => Math.max(...lines.map((line) => line[n]?.length ?? 0)));
  console.log(`\n${title}`);
  lines.forEach((line, n) => {
    const text = line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ");
    console.log(`  ${text}${n > 0 && rows[n - 1]?.failed ? "  FAILED" : ""}`);
  });
}
