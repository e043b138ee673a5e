import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { beforeAll, expect, test } from "vitest";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { randomOf, seedOf } from "../../system/random.ts";
import { startProcess } from "../processes.ts";
import { createFiles } from "./support.ts";

const files = createFiles();
const random = randomOf(seedOf("power cut"));
const library = join(files.directory, "power-cut.so");

beforeAll(() => {
  execFileSync("cc", ["-shared", "-fPIC", "-o", library, join(import.meta.dirname, "power-cut.c")]);
});

/** What the process has told. */
interface Told {
  readonly answered: Set<string>;
  readonly settled: Set<string>;
  waits: Readonly<Record<string, number>>;
}

/** Runs the store in another process, which dies after `settles` settled events. */
async function killed(path: string, settles: number): Promise<Told> {
  const told: Told = { answered: new Set(), settled: new Set(), waits: {} };
  const env = { LD_PRELOAD: library, POWER_CUT: files.directory };
  const { child, ended } = startProcess(join(import.meta.dirname, "power-cut-worker.ts"), { path }, env);
  child.on("message", (message: { answered?: string; settled?: string; waits?: Told["waits"] }) => {
    if (message.answered !== undefined) told.answered.add(message.answered);
    if (message.settled !== undefined) told.settled.add(message.settled);
    told.waits = message.waits ?? told.waits;
    if (told.settled.size >= settles) child.kill("SIGKILL");
  });
  expect(await ended).toMatchObject({ signal: "SIGKILL", errors: "" });
  return told;
}

const SECTOR = 512;

/** Writes what a power cut leaves of a file: all that was synced, and of each later write the sectors that `survives` takes. */
function cut(path: string, to: string, survives: () => boolean): void {
  const synced = existsSync(`${path}.synced`) ? readFileSync(`${path}.synced`) : Buffer.alloc(0);
  const written = existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
  const left = Buffer.alloc(survives() ? Math.max(synced.length, written.length) : synced.length);
  synced.copy(left);
  for (let at = 0; at < Math.min(left.length, written.length); at += SECTOR)
    if (survives()) written.copy(left, at, at, at + SECTOR);
  writeFileSync(to, left);
}

test.each([
  ["no write that was not synced survives", () => false],
  ["some sectors of the latest writes survive", () => random.chance(0.5)],
])("after a power cut, no answered event and no settled attempt is lost: %s", async (_, survives) => {
  for (const settles of [1, 5, 30, 200]) {
    const path = files.path();
    const { answered, settled, waits } = await killed(path, settles);
    const left = files.path();
    for (const suffix of ["", "-wal"]) cut(`${path}${suffix}`, `${left}${suffix}`, survives);
    const store = sqliteStore(left);
    for (const id of answered) expect((await store.get(id))?.eventId).toBe(id);
    for (const id of settled) expect((await store.get(id))?.state).toBe("done");
    await store.close();
    const db = new DatabaseSync(left);
    expect(db.prepare("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
    db.close();
    if (settles < 30) continue;
    // A claim waits at most for a checkpoint.
    expect(waits.claim! + waits.renew!).toBeLessThan(5);
    expect(Math.min(waits.add!, waits.settle!)).toBeGreaterThanOrEqual(settles);
  }
});
