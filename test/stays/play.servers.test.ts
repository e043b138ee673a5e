// Forty random plays on memory and SQLite.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { memoryStore } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";
import { afterAll, expect, test } from "vitest";
import { type PlayOptions, play } from "./play.ts";

const first = Number(process.env.PLAY_SEED ?? Math.floor(Math.random() * 1e6));
console.log(`plays of stays: PLAY_SEED=${first}`);

const folder = mkdtempSync(join(tmpdir(), "stayhook-play-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const ways: readonly [string, Partial<PlayOptions>][] = [
  ["one move after the other", {}],
  ["several moves at once", { lazy: 0.3 }],
  ["processes that end", { lazy: 0.3, kill: 0.05 }],
  ["a platform that does not answer", { lazy: 0.5, outage: 0.05 }],
];

for (const place of ["memory", "sqlite"] as const)
  test.each(ways)(
    `nights, doors, mails and cleanings are right on ${place}: %s`,
    async (name, options) => {
      for (let seed = first; seed < first + 5; seed += 1) {
        const store = memoryStore();
        const path = join(folder, `${name}-${seed}.db`);
        const open = () => (place === "memory" ? store : sqliteStore(path));
        const { faults } = await play({ seed, open, ...options });
        expect([seed, ...faults]).toEqual([seed]);
      }
    },
    600_000,
  );
