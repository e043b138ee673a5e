import { PassThrough } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import type { Sandbox } from "stayhook/testing";
import { onTestFinished, vi } from "vitest";
import { run } from "../../src/cli/cli.ts";
import { createProfiledSandbox } from "../support/answers/sandbox.ts";

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Given {
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** Whether both outputs are a terminal. */
  readonly terminal?: boolean | undefined;
  /** Whether stdin is a terminal. */
  readonly typing?: boolean | undefined;
  /** The whole of stdin. */
  readonly input?: string | undefined;
}

/** A command line at work: what it has printed so far, and what can be done to it. */
export interface Running {
  readonly ended: Promise<Ended>;
  stdout(): string;
  stderr(): string;
  type(line: string): void;
  endInput(): void;
  interrupt(): void;
}

export function start(
  args: readonly string[],
  { env = {}, terminal = false, typing = false, input }: Given = {},
): Running {
  const stdin = Object.assign(new PassThrough(), { isTTY: typing });
  if (input !== undefined) stdin.end(input);
  const [stdout, stderr] = [sink(terminal), sink(terminal)];
  const interruption = new AbortController();
  const io = { stdin, stdout: stdout.stream, stderr: stderr.stream, env, signal: interruption.signal };
  const ended = run(args, io).then((code) => ({ code, stdout: stdout.text(), stderr: stderr.text() }));
  onTestFinished(() => interruption.abort());
  return {
    ended,
    stdout: stdout.text,
    stderr: stderr.text,
    type: (line) => void stdin.write(`${line}\n`),
    endInput: () => void stdin.end(),
    interrupt: () => interruption.abort(),
  };
}

export function cli(args: readonly string[], given: Given = {}): Promise<Ended> {
  return start(args, given).ended;
}

function sink(isTTY: boolean) {
  const stream = Object.assign(new PassThrough(), { isTTY });
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  return { stream, text: () => Buffer.concat(chunks).toString() };
}

/** A sandbox that listens, and the environment in which a command finds it. */
export async function platform(options: Parameters<typeof createProfiledSandbox>[0] = {}): Promise<{
  readonly sandbox: Sandbox;
  readonly env: Readonly<Record<string, string>>;
}> {
  const sandbox = createProfiledSandbox({ seed: 1, accessToken: "t0p-s3cret-token", ...options });
  await sandbox.listen();
  onTestFinished(() => sandbox.close());
  return {
    sandbox,
    env: { STAYHOOK_BASE_URL: sandbox.url, STAYHOOK_ACCESS_TOKEN: sandbox.accessToken },
  };
}

export const plain = stripVTControlCharacters;

export const until = <T>(assertion: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(assertion, { timeout: 20_000, interval: 10 });
