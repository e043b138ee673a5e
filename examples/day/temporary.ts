import { mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";

/** Makes a directory that is removed when this process ends, also on Ctrl-C. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-day-"));
  process.on("exit", () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => process.exit(128 + constants.signals[signal]));
  }
  return directory;
}
