import { onTestFinished } from "vitest";
import { createSandbox, type SandboxOptions } from "../../src/testing/index.ts";
import { startReceiver } from "./receiver.ts";

/** Starts a sandbox until the end of the test. */
export async function startSandbox(options: SandboxOptions = {}) {
  const sandbox = createSandbox(options);
  onTestFinished(() => sandbox.close());
  await sandbox.listen();
  return sandbox;
}

/** Starts an endpoint until the end of the test. */
export async function startEndpoint(...args: Parameters<typeof startReceiver>) {
  const receiver = await startReceiver(...args);
  onTestFinished(() => receiver.close());
  return receiver;
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
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: text === "" ? undefined : JSON.parse(text),
  };
}

/** Configures a URL for each topic. Default: for `bookings` and `listings`. */
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
