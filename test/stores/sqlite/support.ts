import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, onTestFinished, vi } from "vitest";

/** Returns paths for databases in a directory that is deleted after the file's tests. */
export function createFiles() {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-sqlite-"));
  let files = 0;
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  return {
    directory,
    path() {
      files += 1;
      return join(directory, `${files}.db`);
    },
  };
}

/** Stops the clock that limits a transaction. On a busy machine, the store would otherwise split a long transaction. */
export function stopClock(): void {
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
}
