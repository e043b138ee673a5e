import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { delimiter, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { Sandbox } from "stayhook/testing";
import { choosePort } from "../day/port.ts";
import { commandOf } from "./commands.ts";

const SECRET = "s3cret-of-a-test";
/** Folders to search first for programs: the folder of this Node, and the programs that this repository installs. */
const programs = [
  dirname(process.execPath),
  ...["node_modules/.bin", "test/heavy/node_modules/.bin"].map((path) =>
    join(import.meta.dirname, "../..", path),
  ),
];

export interface Launched {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** The URL for notifications. */
  readonly hooks: string;
  stop(): Promise<void>;
}

/**
 * Starts an example with its environment, shows its output, and waits until it listens.
 *
 * @param own - environment variables that only this example needs
 */
export async function launch(
  name: string,
  sandbox: Sandbox,
  temporary: string,
  own: Readonly<Record<string, string>> = {},
): Promise<Launched> {
  const port = await choosePort();
  const { command, cwd = temporary } = commandOf(name);
  const [file = "", ...args] = command;
  const child = spawn(file, args, {
    cwd,
    detached: true, // so that its child processes end with it
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...process.env,
      PATH: [...programs, process.env.PATH].join(delimiter),
      NEXT_TELEMETRY_DISABLED: "1",
      STAYHOOK_BASE_URL: sandbox.url,
      // In a sandbox with accounts, each account has a token of its own, which its example asks for.
      STAYHOOK_ACCESS_TOKEN: sandbox.accounts.length === 0 ? sandbox.accessToken : undefined,
      WEBHOOK_SECRET: SECRET,
      EVENTS_DB: join(temporary, "events.db"),
      PORT: String(port),
      ...own,
    },
  });
  process.once("exit", () => signal(child, "SIGKILL"));
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on("line", (line) => console.log(`  ${name} | ${line}`));
  }
  let over: string | undefined;
  child.once("error", (error) => {
    over = error.message;
  });
  child.once("close", (code) => {
    over ??= `it has ended with ${code}`;
  });
  while (!(await listens(port))) {
    if (over !== undefined) throw new Error(`${name} does not run: ${over}`);
    await sleep(50);
  }
  return {
    url: `http://127.0.0.1:${port}`,
    hooks: `http://127.0.0.1:${port}/hooks?key=${SECRET}`,
    async stop() {
      const closed = over === undefined ? once(child, "close") : undefined;
      signal(child, "SIGTERM");
      await closed;
    },
  };
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

function signal({ pid }: ChildProcess, name: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, name);
  } catch {
    // The process has already ended.
  }
}
