import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { createSandbox, type SandboxOptions } from "../../src/testing/index.ts";

/** Starts a sandbox until the end of the test. */
export async function startSandbox(options: SandboxOptions = {}) {
  const sandbox = createSandbox(options);
  onTestFinished(() => sandbox.close());
  await sandbox.listen();
  return sandbox;
}

interface Received {
  readonly method: string | undefined;
  readonly path: string | undefined;
  readonly contentType: string | undefined;
  readonly body: string;
}

/** Starts an endpoint until the end of the test. It records each request, and then calls `answer`. */
export async function startEndpoint(
  answer: (response: ServerResponse, received: Received, request: IncomingMessage) => void = (response) =>
    response.end(),
) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const take = (body: string) => {
      const { method, url: path, headers } = request;
      const one = { method, path, contentType: headers["content-type"], body };
      received.push(one);
      answer(response, one, request);
    };
    // Ignore a caller that hangs up before the end of the body.
    text(request).then(take, () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  onTestFinished(close);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    /** The received notifications, parsed. */
    notifications: () => received.map(({ body }) => JSON.parse(body) as Record<string, unknown>),
    close,
  };
}

type Listening = Awaited<ReturnType<typeof startSandbox>>;

/** Calls the sandbox's API with its token. A body is sent as JSON. */
export async function call(
  sandbox: Listening,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
) {
  const response = await fetch(sandbox.url + path, {
    method,
    headers: { authorization: `Bearer ${sandbox.accessToken}`, ...headers },
    ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const { status, headers: answered } = response;
  const answer = await response.text();
  return { status, headers: answered, body: answer === "" ? undefined : JSON.parse(answer) };
}

/** Configures a URL for each topic. Default: `bookings` and `listings`. */
export async function configure(
  sandbox: Listening,
  url: string,
  topics: readonly string[] = ["bookings", "listings"],
  isActive = true,
) {
  const endpoints = Object.fromEntries(topics.map((topic) => [topic, `${url}/${topic}`]));
  await call(sandbox, "DELETE", "/v2/webhooks/config");
  const answer = await call(sandbox, "POST", "/v2/webhooks/config", { isActive, endpoints });
  if (answer.status !== 201) throw new Error(`not configured: ${JSON.stringify(answer.body)}`);
}
