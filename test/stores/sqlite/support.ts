import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

/** Paths for databases in a directory that is deleted after the file's tests. */
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
