import { AsyncLocalStorage } from "node:async_hooks";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createWebhookHandler, memoryStore, StayhookClient, type WebhookHandlerOptions } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import type { EventStore, NewEvent } from "stayhook/store";

/** A request as Node passes it on, and the result of its handling. */
export interface Seen {
  readonly method: string;
  readonly url: string;
  readonly declared: number;
  /** The part of the body that has arrived. */
  readonly chunks: Buffer[];
  /** Whether the whole body had arrived when the handler answered or the connection closed. */
  complete: boolean;
  answered: number | undefined;
  readonly added: { readonly event: NewEvent; readonly result: string }[];
  closed: boolean;
}

export interface Watched {
  readonly port: number;
  readonly server: Server;
  readonly seen: Seen[];
  readonly store: EventStore;
  close(): Promise<void>;
}

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** Starts a real server with a real handler, and records its requests and answers. */
export async function watch(options: Partial<WebhookHandlerOptions> = {}): Promise<Watched> {
  const current = new AsyncLocalStorage<Seen>();
  const seen: Seen[] = [];
  const inner = memoryStore();
  const add: EventStore["add"] = async (event) => {
    const result = await inner.add(event);
    current.getStore()?.added.push({ event, result });
    return result;
  };
  const store = new Proxy(inner, {
    get: (target, name) => {
      if (name === "add") return add;
      const member = Reflect.get(target, name, target) as unknown;
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
  const webhooks = createWebhookHandler({
    client: new StayhookClient({
      baseUrl: "https://platform.example",
      accessToken: "token",
      fetch: async () => Response.json({}),
    }),
    on: {},
    logger: quiet,
    autoStart: false,
    replyWithin: 1_500,
    ...options,
    store,
  });
  const handler = toNodeHandler(webhooks);
  const server = createServer(
    {
      headersTimeout: 1_500,
      requestTimeout: 5_000,
      connectionsCheckingInterval: 50,
      keepAliveTimeout: 60_000,
    },
    (request, response) => {
      const one = tap(request);
      seen.push(one);
      const writeHead = response.writeHead;
      response.writeHead = ((...given: Parameters<typeof writeHead>) => {
        one.answered = given[0];
        one.complete = request.complete;
        return writeHead.apply(response, given);
      }) as typeof writeHead;
      response.on("close", () => {
        one.closed = true;
        if (one.answered === undefined) one.complete = request.complete;
      });
      current.run(one, () => handler(request, response));
    },
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await webhooks.close();
    await inner.close();
  };
  return { port, server, seen, store, close };
}

/** Copies the body as it arrives, without changing the request. */
function tap(request: IncomingMessage): Seen {
  const chunks: Buffer[] = [];
  const push = request.push;
  request.push = (chunk, encoding) => {
    if (chunk) chunks.push(chunk);
    return push.call(request, chunk, encoding);
  };
  return {
    method: request.method ?? "",
    url: request.url ?? "",
    declared: Number(request.headers["content-length"] ?? 0),
    chunks,
    complete: false,
    answered: undefined,
    added: [],
    closed: false,
  };
}

export function connections(server: Server): Promise<number> {
  return new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  );
}
