import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { bundled } from "./support/bundle.ts";
import { installed } from "./support/consumer.ts";
import { root, subpaths } from "./support/pack.ts";

const file = join(import.meta.dirname, "size-budget.json");
const document = join(root, "bench/size.md");

const toUpdate = "STAYHOOK_UPDATE_SIZES=1 npx vitest run test/package/size.test.ts";

/** The size budget of each entry, in kB minified and gzipped. An entry is a subpath, or some names of a subpath. */
const budgets: Readonly<Record<string, number>> = JSON.parse(readFileSync(file, "utf8"));

/** Leave out optional peers: users of such an entry have them already. */
const peers = Object.keys(JSON.parse(readFileSync(join(root, "package.json"), "utf8")).peerDependencies);

/** Returns the statement that re-exports an entry such as `stayhook { stay }`. */
function statementOf(entry: string): string {
  const [subpath, ...names] = entry.split(" ");
  return `export ${names.join(" ") || "*"} from "${subpath}";`;
}

/** The size in bytes that each entry adds to a user's bundle. */
const measured = new Map<string, { readonly minified: number; readonly gzipped: number }>();
beforeAll(async () => {
  const consumer = await installed();
  const external = [...peers, ...peers.map((peer) => `${peer}/*`)];
  for (const entry of Object.keys(budgets)) {
    const options = { external, minify: true, target: "es2023" };
    const { code } = await bundled(consumer, statementOf(entry), options);
    const gzipped = gzipSync(code.contents, { level: 9 }).length;
    measured.set(entry, { minified: code.contents.length, gzipped });
  }
  if (process.env.STAYHOOK_UPDATE_SIZES === "1") update();
});

const kB = (bytes: number) => bytes / 1000;
const shown = (bytes: number) => (kB(bytes) < 9.95 ? kB(bytes).toFixed(1) : kB(bytes).toFixed(0));

describe("min+gzip, dependencies included", () => {
  test.each(Object.entries(budgets))(
    "%s fits into %s kB, which is no more than it needs",
    (entry, budget) => {
      const size = kB(measured.get(entry)!.gzipped);
      expect(size, `too large; if it is worth it: ${toUpdate}`).toBeLessThanOrEqual(budget);
      expect(size, `lower its budget: ${toUpdate}`).toBeGreaterThanOrEqual(budget * 0.9 - 0.1);
    },
  );

  test("every subpath has a budget", () => {
    expect(
      Object.keys(budgets)
        .filter((entry) => !entry.includes(" "))
        .toSorted(),
    ).toEqual(subpaths.toSorted());
  });

  test("bench/size.md has these figures", () => {
    const rows = readFileSync(document, "utf8").matchAll(/^\| `([^`]+)` \| ([\d.]+) \| ([\d.]+) \|/gm);
    const figures = Array.from(rows, ([, entry = "", ...sizes]) => [entry, sizes.map(Number)] as const);
    expect(figures.map(([entry]) => entry)).toEqual(Object.keys(budgets));
    for (const [entry, sizes] of figures) {
      const { minified, gzipped } = measured.get(entry)!;
      for (const [index, size] of [minified, gzipped].entries()) {
        // Sizes are rounded, and esbuild and zlib differ by a few bytes between machines.
        const most = kB(size) < 9.95 ? 0.1 : 1;
        expect(Math.abs(sizes[index]! - kB(size)), `${entry}: ${shown(size)} kB`).toBeLessThanOrEqual(most);
      }
    }
  });
});

/** Writes the measured sizes into bench/size.md, and the sizes plus 3 % into size-budget.json. */
function update(): void {
  const entries = [...measured].map(([entry, { gzipped }]) => [entry, Math.ceil(kB(gzipped) * 10.3) / 10]);
  writeFileSync(file, `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`);
  const rows = [...measured].map(
    ([entry, { minified, gzipped }]) => `| \`${entry}\` | ${shown(minified)} | ${shown(gzipped)} |\n`,
  );
  const text = readFileSync(document, "utf8");
  writeFileSync(document, text.replace(/(\|---\|---:\|---:\|\n)(\|.*\n)*/, `$1${rows.join("")}`));
}
