import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import type { NewEvent } from "../../../src/stores/store.ts";

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

export function eventOf(ref: string | null = "booking:A", eventId: string = randomUUID()): NewEvent {
  return {
    eventId,
    ref,
    source: "webhook",
    topic: null,
    timestamp: "2026-03-01T10:00:00.000Z",
    notification: "{}",
  };
}

export const DONE = { state: "done", type: "booking.Confirmed", status: "Confirmed" } as const;
export const CLAIM = { limit: 100, leaseDuration: 60_000 } as const;

/** Another process, from a file beside this one, with arguments for it. Ended with the test file at the latest. */
export function startWorker(name: string, args: object) {
  const child = fork(join(import.meta.dirname, `${name}.ts`), [JSON.stringify(args)], { stdio: "pipe" });
  let errors = "";
  child.stderr?.on("data", (chunk) => {
    errors += chunk;
  });
  running.add(child);
  const ended = once(child, "exit").then(([code, signal]: (number | string | null)[]) => {
    running.delete(child);
    return { code, signal, errors: errors.replace(/.*(ExperimentalWarning|--trace-warnings).*\n/g, "") };
  });
  return { child, ended, said: async () => (await once(child, "message"))[0] as unknown };
}

const running = new Set<ReturnType<typeof fork>>();
afterAll(() => {
  for (const child of running) child.kill("SIGKILL");
});
