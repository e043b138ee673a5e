import { spawn } from "node:child_process";
import { globSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../package/support/pack.ts";

/** The program that runs a script, and the arguments before the script's path. */
export interface Runtime {
  readonly command: string;
  readonly args: readonly string[];
}

/** Returns the path of the program itself. A signal to npm's wrapper script would not reach the program. */
function installedAt(pattern: string): string {
  const [path] = globSync(pattern, { cwd: root });
  if (path === undefined) throw new Error(`${pattern} is not there: node test/heavy/install.ts`);
  return join(root, path);
}

/** The permissions that docs/runtimes.md names. */
const denoPermissions = ["--allow-net", "--allow-read", "--allow-write"];

export const runtimes: Readonly<Record<string, Runtime>> = {
  "Node 22": { command: installedAt("test/heavy/node_modules/node22/bin/node"), args: [] },
  "Node 24": { command: installedAt("node_modules/.bin/node"), args: [] },
  "Node 26": { command: installedAt("test/heavy/node_modules/node26/bin/node"), args: [] },
  Bun: { command: installedAt("test/heavy/node_modules/bun/bin/bun.exe"), args: ["run"] },
  Deno: {
    command: installedAt("test/heavy/node_modules/@deno/*/deno{,.exe}"),
    args: ["run", "--no-remote", "--no-prompt", "--node-modules-dir=manual", ...denoPermissions],
  },
};

/** A process. `using` kills it. */
export interface Running extends Disposable {
  /** Resolves when the process has printed the text. Rejects if the process ends first. */
  said(text: string): Promise<void>;
  kill(): void;
  /** Resolves at the end of the process. `result` is the last line of its output, parsed as JSON. */
  readonly ended: Promise<{
    readonly code: number | null;
    readonly result: unknown;
    readonly output: string;
  }>;
}

/** Runs a script on a runtime. The script gets one argument, as JSON. */
export function run(
  { command, args }: Runtime,
  script: string,
  argument: object,
  env: NodeJS.ProcessEnv = {},
): Running {
  const child = spawn(command, [...args, script, JSON.stringify(argument)], {
    cwd: join(script, ".."),
    timeout: 90_000,
    killSignal: "SIGKILL",
    env: { ...process.env, NODE_OPTIONS: "", NO_COLOR: "1", DENO_DIR: join(script, "../.deno"), ...env },
  });
  let stdout = "";
  let stderr = "";
  const listeners = new Set<() => void>();
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    for (const listener of [...listeners]) listener();
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  return {
    said: (text) =>
      new Promise((resolve, reject) => {
        const look = () => stdout.includes(text) && resolve();
        listeners.add(look);
        look();
        ended.then(() => reject(new Error(`it ended without ${text}:\n${stdout}\n${stderr}`)), reject);
      }),
    kill: () => void child.kill("SIGKILL"),
    [Symbol.dispose]: () => void child.kill("SIGKILL"),
    ended: ended.then((code) => {
      const last = stdout.trim().split("\n").at(-1) ?? "";
      const output = `${stdout}\n${stderr}`;
      return { code, output, result: last.startsWith("{") ? JSON.parse(last) : undefined };
    }),
  };
}
