import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, statSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import { choosePort } from "../../../examples/day/port.ts";
import type { Sandbox } from "../../../src/testing/index.ts";
import type { Consumer } from "../../package/support/consumer.ts";
import { root } from "../../package/support/pack.ts";
import { PATIENCE } from "../../support/eventually.ts";

export interface ExampleOptions {
  /** The project for the copy, from `installed([...])`, with the packages that the example needs. */
  readonly project: Consumer;
  /** The platform, which must be listening. */
  readonly sandbox: Sandbox;
  /** A file or a folder of `examples/`. */
  readonly from: string;
  /** Files to write next to the copy, by name, for settings that only the test needs. */
  readonly files?: Readonly<Record<string, string>>;
  /** Commands to run before the example, in the copy's folder, such as a compiler. */
  readonly before?: readonly (readonly string[])[];
  /** The command that starts the example, in the copy's folder. Default: Node with the file. */
  readonly command?: readonly string[];
  /** Environment variables in addition to those that every example gets. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The example's path for notifications. Default: `/hooks`. */
  readonly path?: string;
  /** The folder of an earlier run. The example starts there again with the files of that run, and nothing is copied. */
  readonly directory?: string;
}

/** A listening example in its own process. */
export interface Example {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** The URL for notifications, with the secret. */
  readonly hooks: string;
  /** The folder of the copy. */
  readonly directory: string;
  readonly output: string;
  /** Resolves when the example has printed `what`. */
  said(what: string | RegExp): Promise<void>;
  /** Sends SIGTERM. Resolves to `[0, null]` if the example then shuts down by itself. */
  stop(): Promise<readonly [code: number | null, signal: string | null]>;
  /** Sends SIGKILL. Resolves when the process has ended. */
  kill(): Promise<void>;
}

/** The secret of the examples. URLs must encode it. */
export const SECRET = "s3cret & more";

/**
 * Copies an example into a project, starts it next to the sandbox, and waits until it listens. Kills it after the test.
 */
export async function startExample(options: ExampleOptions): Promise<Example> {
  const { sandbox, from, path = "/hooks" } = options;
  const directory = options.directory ?? copy(options);
  for (const step of options.before ?? []) await run(step, directory);
  const port = await choosePort();
  const [file = "", ...args] = options.command ?? [process.execPath, basename(from)];
  const child = spawn(file, args, {
    cwd: directory,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...process.env,
      NODE_ENV: undefined,
      NODE_OPTIONS: "",
      STAYHOOK_BASE_URL: sandbox.url,
      STAYHOOK_ACCESS_TOKEN: sandbox.accounts.length === 0 ? sandbox.accessToken : undefined,
      WEBHOOK_SECRET: SECRET,
      PORT: String(port),
      ...options.env,
    },
  });
  onTestFinished(() => killAll(child));
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
    });
  }
  const ended = once(child, "close");
  const isOver = (): boolean => child.exitCode !== null || child.signalCode !== null;

  const until = async (what: string, done: () => boolean | Promise<boolean>): Promise<void> => {
    const end = performance.now() + PATIENCE;
    while (!(await done())) {
      if (isOver()) await ended;
      if (isOver() && !(await done())) throw new Error(`${from} ended before ${what}. It said:\n${output}`);
      if (performance.now() > end)
        throw new Error(`${from}: waited in vain for ${what}. It said:\n${output}`);
      await sleep(20);
    }
  };

  await until("it listened", () => listens(port));
  return {
    url: `http://127.0.0.1:${port}`,
    hooks: `http://127.0.0.1:${port}${path}?key=${encodeURIComponent(SECRET)}`,
    directory,
    get output() {
      return output;
    },
    said: (what) =>
      until(`it said ${what}`, () => (typeof what === "string" ? output.includes(what) : what.test(output))),
    async stop() {
      child.kill("SIGTERM");
      await until("it ended", isOver);
      await ended;
      return [child.exitCode, child.signalCode];
    },
    async kill() {
      killAll(child);
      await ended;
    },
  };
}

function copy({ project, from, files = {} }: ExampleOptions): string {
  const source = join(root, "examples", from);
  const directory = mkdtempSync(join(project.directory, "app-"));
  writeFileSync(join(directory, "package.json"), '{ "type": "module" }');
  if (statSync(source).isDirectory()) {
    const left = /[\\/](node_modules|dist|\.next|events\.db[^\\/]*)$/;
    cpSync(source, directory, { recursive: true, filter: (path) => !left.test(path) });
  } else {
    cpSync(source, join(directory, basename(from)));
  }
  for (const [name, content] of Object.entries(files)) writeFileSync(join(directory, name), content);
  return directory;
}

async function run([file = "", ...args]: readonly string[], cwd: string): Promise<void> {
  try {
    await promisify(execFile)(file, args, { cwd, timeout: 120_000 });
  } catch (error) {
    const { stdout, stderr } = error as { readonly stdout?: string; readonly stderr?: string };
    throw new Error(`${[file, ...args].join(" ")} failed:\n${stdout}\n${stderr}`, { cause: error });
  }
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const answer = (is: boolean) => () => {
      socket.destroy();
      resolve(is);
    };
    socket.once("connect", answer(true)).once("error", answer(false));
  });
}

/** Kills the process and the processes that it has started. */
function killAll({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The process has already ended.
  }
}
