import { PassThrough } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import {
  createWebhookHandler,
  memoryStore,
  StayhookClient,
  sharedSecret,
  type WebhookHandlerOptions,
} from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";
import { createSandbox, type Sandbox, type SandboxOptions } from "stayhook/testing";
import { expect, onTestFinished } from "vitest";
import { run } from "../../src/cli/cli.ts";
import { serve } from "../support/serve.ts";
import { freePort } from "../support/server-process.ts";

export { temporaryFolder as directory } from "../support/temporary-folder.ts";
export { serve };

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Given {
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** Whether stdout and stderr are terminals. */
  readonly terminal?: boolean | undefined;
  /** The width of the terminal. */
  readonly columns?: number | undefined;
  /** Whether stdin is a terminal. */
  readonly typing?: boolean | undefined;
  /** The text of stdin. */
  readonly input?: string | undefined;
}

export interface Running {
  readonly ended: Promise<Ended>;
  stdout(): string;
  stderr(): string;
  type(line: string): void;
  endInput(): void;
  interrupt(): void;
}

/** @param args - the words of the command, or its line, whose words have no spaces */
export function start(
  args: string | readonly string[],
  { env = {}, terminal = false, columns, typing = false, input }: Given = {},
): Running {
  const stdin = Object.assign(new PassThrough(), { isTTY: typing });
  if (input !== undefined) stdin.end(input);
  const [stdout, stderr] = [sink(terminal, columns), sink(terminal, columns)];
  const interruption = new AbortController();
  const io = { stdin, stdout: stdout.stream, stderr: stderr.stream, env, signal: interruption.signal };
  const ended = run(typeof args === "string" ? args.split(" ") : args, io).then((code) => ({
    code,
    stdout: stdout.text(),
    stderr: stderr.text(),
  }));
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

export function cli(args: string | readonly string[], given: Given = {}): Promise<Ended> {
  return start(args, given).ended;
}

function sink(isTTY: boolean, columns?: number) {
  const stream = Object.assign(new PassThrough(), { isTTY, columns });
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  return { stream, text: () => Buffer.concat(chunks).toString() };
}

/** Starts a sandbox. Returns it with the environment variables that make a command use it. */
export async function platform(options: SandboxOptions = {}): Promise<{
  readonly sandbox: Sandbox;
  readonly env: Readonly<Record<string, string>>;
}> {
  const sandbox = createSandbox({ seed: 1, accessToken: "t0p-s3cret-token", ...options });
  await sandbox.listen();
  onTestFinished(() => sandbox.close());
  return {
    sandbox,
    env: { STAYHOOK_BASE_URL: sandbox.url, STAYHOOK_ACCESS_TOKEN: sandbox.accessToken },
  };
}

type Env = Readonly<Record<string, string>>;

export const clientOf = (env: Env) =>
  new StayhookClient({ baseUrl: env.STAYHOOK_BASE_URL ?? "", accessToken: env.STAYHOOK_ACCESS_TOKEN ?? "" });

/** Makes an app that records notifications. It handles events only when a test calls `webhooks.drain`. */
export function appOf(
  env: Env,
  {
    store = memoryStore() as never,
    ...options
  }: Partial<Omit<WebhookHandlerOptions, "store">> & { readonly store?: EventStore<never> } = {},
) {
  const heard: string[] = [];
  const webhooks = createWebhookHandler({
    client: clientOf(env),
    store,
    verify: false,
    on: { fallback: (event) => void heard.push(`${event.type} by ${event.source}`) },
    autoStart: false,
    logger: quiet,
    ...options,
  });
  const close = async () => {
    await webhooks.close();
    await store.close();
  };
  onTestFinished(close);
  const record = async (
    bookingCode: string,
    more: { readonly eventId?: string; readonly topic?: string } = {},
  ) => {
    const { eventId = crypto.randomUUID(), topic } = more;
    const body = JSON.stringify({ eventId, timestamp: "2026-11-21T10:00:00Z", bookingCode, listingId: null });
    const url = topic ? `/?topic=${topic}` : "/";
    expect(await webhooks.receive({ method: "POST", url, headers: {}, body })).toMatchObject({ status: 200 });
    return { eventId, body };
  };
  return { webhooks, store, heard, record, close };
}

/** Makes the store of an app in a file. A test may lose its newest events if the machine dies. */
export const fileStore = (file: string) => sqliteStore(file, { durability: "process-crash" });

/** Serves an app over HTTP. Its URL has the secret `s3cret`, and the app demands `secret`, if it is given. */
export async function servedAppOf(env: Env, secret?: string) {
  const verify = secret === undefined ? false : sharedSecret({ query: "key", secret });
  const app = appOf(env, { verify });
  return { ...app, url: `${await serve(toNodeHandler(app.webhooks))}/hooks?key=s3cret` };
}

export const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** Starts an endpoint that answers 200 to every request. It keeps URLs and bodies. */
export async function receiver() {
  const bodies: string[] = [];
  const urls: string[] = [];
  const origin = await serve(async (request, response) => {
    urls.push(request.url ?? "");
    bodies.push((await request.setEncoding("utf8").toArray()).join(""));
    response.end();
  });
  return { url: `${origin}/`, received: (): readonly string[] => bodies, urls };
}

/** Returns a URL on which no server listens. */
export const closed = async () => `http://127.0.0.1:${await freePort()}`;

export const plain = stripVTControlCharacters;
