import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, rmSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

// A port that the system assigns to connections may be taken before the server listens.
export { choosePort as freePort } from "../../examples/day/port.ts";

/** Longest time for a server to start, in ms. */
const STARTING = 60_000;

/** A server that no other test uses. It ends with this process. */
export interface OwnServer {
  readonly url: string;
  readonly pid: number;
  /** Shuts the server down in order. */
  stop(): Promise<void>;
  /** Ends the server as a crash does. */
  kill(): Promise<void>;
  /** Starts the server again, on the same port and files. Resolves when the server answers. */
  start(): Promise<void>;
  /** Ends the server and deletes its files. */
  close(): Promise<void>;
}

interface Program {
  readonly url: string;
  /** Holds the files of the server. */
  readonly directory: string;
  readonly run: () => ChildProcess;
  readonly answers: (url: string) => Promise<boolean>;
  readonly stopSignal?: NodeJS.Signals;
  readonly killSignal?: NodeJS.Signals;
}

/** Starts a server. */
export async function ownServer(program: Program): Promise<OwnServer> {
  const { url, directory, run, answers, stopSignal = "SIGTERM", killSignal = "SIGKILL" } = program;
  let child: ChildProcess | undefined;

  async function end(signal: NodeJS.Signals): Promise<void> {
    const ending = child;
    child = undefined;
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return;
    const ended = once(ending, "exit");
    ending.ref();
    ending.kill(signal);
    // A stopped process handles the signal only after SIGCONT.
    ending.kill("SIGCONT");
    await ended;
  }

  async function start(): Promise<void> {
    const starting = run();
    child = starting;
    guard(starting, directory);
    for (const until = performance.now() + STARTING; !(await answers(url)); await sleep(50)) {
      if (starting.exitCode !== null) throw new Error(`${starting.spawnfile} ended: ${starting.exitCode}`);
      if (performance.now() > until) throw new Error(`${starting.spawnfile} does not answer at ${url}`);
    }
  }

  async function close(): Promise<void> {
    await end(killSignal);
    rmSync(directory, { recursive: true, force: true });
  }

  await start();
  return {
    ...{ url, start, close },
    stop: () => end(stopSignal),
    kill: () => end(killSignal),
    get pid() {
      return child?.pid ?? 0;
    },
  };
}

/**
 * Ends the server and deletes its files when this process ends, even if this process is killed: a shell waits until the
 * pipe from this process closes. Neither the server nor the shell keeps this process alive.
 */
function guard(server: ChildProcess, directory: string): void {
  const script = 'cat; kill -KILL "$0"; sleep 1; rm -rf "$1"';
  const args = ["-c", script, String(server.pid), directory];
  const shell = spawn("sh", args, { stdio: ["pipe", "ignore", "ignore"], detached: true });
  server.once("exit", () => shell.kill("SIGKILL"));
  for (const each of [server, shell, shell.stdin as Socket]) each.unref();
}

/**
 * Makes a function that resolves to the URL of the server that tests share: the first of `urls` that answers, or else a
 * server that ends with this process. It resolves to `undefined` if no server answers and the program is not installed.
 * In CI that is an error. Elsewhere the console says that tests are skipped.
 */
export function sharedServer(
  name: string,
  urls: () => readonly string[],
  answers: (url: string) => Promise<boolean>,
  startOwn: () => Promise<OwnServer | undefined>,
): () => Promise<string | undefined> {
  let found: Promise<string | undefined> | undefined;
  const find = async () => {
    for (const url of urls()) if (await answers(url)) return url;
    const own = await startOwn();
    if (own === undefined && process.env.CI)
      throw new Error(`No ${name} answers, and none is installed. CI skips nothing.`);
    if (own === undefined) console.warn(`SKIPPED: no ${name} answers at ${urls()}, and none is installed`);
    return own?.url;
  };
  return () => {
    if (process.env.STAYHOOK_WITHOUT_SERVERS)
      throw new Error("npm test has no servers. End the name of this test file in .servers.test.ts.");
    found ??= find();
    return found;
  };
}

/** Returns the path of a program that has one of these names, or `undefined` if it is not installed. */
export function installed(names: readonly string[], further: readonly string[] = []): string | undefined {
  const directories = [...further, ...(process.env.PATH ?? "").split(":"), "/usr/sbin"];
  return names.flatMap((name) => directories.map((directory) => join(directory, name))).find(existsSync);
}
