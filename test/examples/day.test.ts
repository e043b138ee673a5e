import { execFile } from "node:child_process";
import { promisify, stripVTControlCharacters } from "node:util";
import { expect, it } from "vitest";
import { built, root } from "./built.ts";

/** Runs what `npm start` runs, and resolves to what it printed; rejects where it does not exit with 0 in 15 s. */
async function runDay(env: NodeJS.ProcessEnv = {}) {
  built();
  const { stdout } = await promisify(execFile)(process.execPath, ["examples/day/main.ts"], {
    cwd: root,
    timeout: 15_000,
    env: { ...process.env, ...env },
  });
  return stdout;
}

it("plays a day whose totals add up", { timeout: 20_000 }, async () => {
  const stdout = await runDay({ FORCE_COLOR: undefined, NO_COLOR: undefined });
  expect(stdout, "no terminal, no colour").toBe(stripVTControlCharacters(stdout));

  const lines = stdout.split("\n");
  const count = (pattern: RegExp) => lines.filter((line) => pattern.test(line)).length;
  expect(count(/ platform .* is (Request|Confirmed|Declined|Cancelled|Published)\)$/)).toBe(12);
  expect(count(/ arrived /)).toBe(12);
  expect(count(/ duplicate /)).toBe(12);
  expect(count(/ callback /)).toBe(13);
  expect(count(/ failed .*again in 500 ms/)).toBe(1);
  expect(count(/ callback .*booking\.Confirmed, attempt 2/)).toBe(1);
  expect(count(/ calendar .*blocked \d+ nights?, /)).toBeGreaterThan(0);
  expect(count(/^✓ /)).toBe(7);
  expect(stdout).not.toContain("NOT SO");
  expect(stdout).toContain("24 deliveries = 12 new + 12 duplicates");

  // Which nights, is the callbacks' own sum too.
  const nights = (verb: string) =>
    [...stdout.matchAll(new RegExp(`${verb} (\\d+) nights?, `, "g"))].reduce(
      (sum, [, n]) => sum + Number(n),
      0,
    );
  const [, blocked, released] = /^✓ (\d+) nights blocked − (\d+) released/m.exec(stdout) ?? [];
  expect([nights("blocked"), nights("released")]).toEqual([Number(blocked), Number(released)]);
});
