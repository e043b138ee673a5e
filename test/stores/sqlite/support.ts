import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, onTestFinished, vi } from "vitest";

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

/** On a machine that is busy, a transaction that takes too long is cut into pieces. */
export function stopClock(): void {
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
}
