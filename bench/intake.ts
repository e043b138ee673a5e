// How many notifications a second come in: what the handler costs beside an HTTP server that does nothing.
// Compares within one run only; the machine's own speed is in all of it.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import {
  createWebhookHandler,
  memoryStore,
  StayhookClient,
  sharedSecret,
  type WebhookHandler,
} from "stayhook";
import { toNodeHandler } from "stayhook/node";
import type { Load, LoadResult } from "./support/load.ts";
import { Rounds } from "./support/rounds.ts";

const ROUNDS = 5;
const load = { path: "/hooks?key=secret", connections: 32, requests: 20_000, ms: 400 };

const client = new StayhookClient({ baseUrl: "https://platform.example", accessToken: "token" });
const verify = sharedSecret({ query: "key", secret: "secret" });
const handler = (options = {}): WebhookHandler =>
  createWebhookHandler({ client, store: memoryStore(), on: {}, autoStart: false, ...options });

const servers: Readonly<Record<string, () => RequestListener>> = {
  "node:http, reading the body": () => (request, response) => {
    request.on("data", () => {}).on("end", () => response.writeHead(200, { "content-length": 0 }).end());
  },
  toNodeHandler: () => toNodeHandler(handler()),
  "toNodeHandler, sharedSecret": () => toNodeHandler(handler({ verify })),
  "webhooks.fetch": () => overFetch(handler()),
};

/** As a framework's server for Node does it. */
function overFetch(webhooks: WebhookHandler): RequestListener {
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = "", url = "", headers } = request;
    const body = Readable.toWeb(request) as ReadableStream<Uint8Array>;
    const init = { method, headers: headers as Record<string, string>, body, duplex: "half" };
    const result = await webhooks.fetch(new Request(`http://${headers.host}${url}`, init));
    response.writeHead(result.status, Object.fromEntries(result.headers)).end(await result.text());
  };
  return (request, response) => void answer(request, response);
}

async function measure(listener: RequestListener, generator: ChildProcess): Promise<number> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  generator.send({ ...load, port: (server.address() as AddressInfo).port } satisfies Load);
  const [{ perSecond, refused }] = (await once(generator, "message")) as [LoadResult];
  server.closeAllConnections();
  await once(server.close(), "close");
  if (refused > 0) throw new Error(`${refused} notifications were refused`);
  return perSecond;
}

const generator = fork(new URL("./support/load.ts", import.meta.url));
generator.on("exit", (code) => code && process.exit(code));
const rounds = new Rounds("/s");
// The first round warms up.
for (let round = 0; round <= ROUNDS; round++) {
  for (const [name, listener] of Object.entries(servers)) {
    const perSecond = await measure(listener(), generator);
    if (round > 0) rounds.add(name, perSecond);
  }
}
generator.kill();
console.log(`notifications a second, median of ${ROUNDS} rounds`);
rounds.print();
