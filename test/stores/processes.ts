import { fork } from "node:child_process";
import { once } from "node:events";
import { afterAll } from "vitest";

const running = new Set<ReturnType<typeof fork>>();
afterAll(() => {
  for (const child of running) child.kill("SIGKILL");
});

/** Runs a file in another process, which gets `args`. The process is killed at the end of the test file. */
export function startProcess(file: string, args: object, env: NodeJS.ProcessEnv = {}) {
  const child = fork(file, [JSON.stringify(args)], { stdio: "pipe", env: { ...process.env, ...env } });
  let errors = "";
  let output = "";
  child.stdout?.on("data", (chunk) => {
    output += chunk;
  });
  child.stderr?.on("data", (chunk) => {
    errors += chunk;
  });
  running.add(child);
  const ended = once(child, "exit").then(([code, signal]: (number | string | null)[]) => {
    running.delete(child);
    return {
      code,
      signal,
      output,
      errors: errors.replace(/.*(ExperimentalWarning|--trace-warnings).*\n/g, ""),
    };
  });
  return { child, ended, said: async () => (await once(child, "message"))[0] as unknown };
}
