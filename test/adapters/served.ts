import { type IncomingMessage, type RequestListener, type RequestOptions, request } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import timers from "node:timers";
import { onTestFinished } from "vitest";
import type { Webhooks } from "../../src/adapters/exchange.ts";
import { type Internals, withInternals } from "../../src/webhooks/internals.ts";
import type { ReceiverOptions } from "../../src/webhooks/receiving/receive.ts";
import type { ReceiveRequest } from "../../src/webhooks/receiving/request.ts";
import { serve as serveUntilEnd } from "../support/serve.ts";
import { type Harness, harness } from "../webhooks/receiving/receiver.ts";

/** Serves on a free port until the test ends. */
export async function serve(
  listener: RequestListener,
): Promise<{ readonly port: number; readonly url: string }> {
  const url = await serveUntilEnd(listener);
  return { port: Number(new URL(url).port), url };
}

/** Makes a webhook handler that only receives. It counts how often an adapter starts it. */
export function receivingOnly(options: Partial<ReceiverOptions> = {}) {
  const side: Harness = harness({ maxBodyBytes: 65_536, ...options });
  let starts = 0;
  const webhooks: Webhooks = withInternals(
    { receive: async (incoming: ReceiveRequest) => (await side.receive(incoming)).result },
    { start: () => void starts++, serves: () => {} } as unknown as Internals,
  );
  return { ...side, webhooks, starts: () => starts };
}

/** POSTs with Node's own client. Resolves to the answer. Rejects if the connection breaks before the answer ends. */
export function send(
  port: number,
  body: string | Uint8Array | undefined,
  options: RequestOptions = {},
): Promise<{ status: number; headers: IncomingMessage["headers"]; body: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(
      { host: "127.0.0.1", port, method: "POST", path: "/hooks", ...options },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8");
        answer.on("data", (chunk: string) => (text += chunk));
        answer.on("end", () =>
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: text }),
        );
        answer.on("error", reject);
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}

/** Stops the timer that ends an answer to a body that nobody reads, so that only something else can end the answer. */
export function stopLinger(): void {
  const { setTimeout } = timers;
  const set = (to: object) => {
    Object.assign(timers, to);
    syncBuiltinESMExports();
  };
  set({ setTimeout: () => setTimeout(() => {}, 0) });
  onTestFinished(() => set({ setTimeout }));
}
