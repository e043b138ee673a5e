import { readFileSync, realpathSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { StayhookError } from "../../errors.ts";

/**
 * Throws if the database's file is mounted without its folder. SQLite keeps the newest events in `-wal` beside the file,
 * where they are lost together with the container.
 */
export function assertFolderMounted(path: string): void {
  // SQLite follows symbolic links, and puts `-wal` beside the file that they lead to.
  const file = realpathSync(path);
  if (isMountPoint(file) ?? isOnAnotherDevice(file))
    throw new StayhookError(
      `the file ${file} is mounted alone, without its folder. SQLite keeps the newest events in ${file}-wal, which is not on that volume, so they would be lost with the container. Give the database a folder of its own, and mount the folder`,
    );
}

/** @returns `undefined` if the system does not list its mounts: only Linux does */
function isMountPoint(file: string): boolean | undefined {
  try {
    const lines = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
    const name = file.replaceAll(/[\\ \t\n]/g, (c) => `\\${c.charCodeAt(0).toString(8).padStart(3, "0")}`);
    return lines.some((line) => line.split(" ", 5)[4] === name);
  } catch {
    return undefined;
  }
}

/** On some overlay file systems, this is true of each file, so it decides only where mounts are not listed. */
function isOnAnotherDevice(file: string): boolean {
  return statSync(file).dev !== statSync(dirname(file)).dev;
}
