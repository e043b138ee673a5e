// The contestants of the intake benchmarks: listeners of `node:http` that answer a notification.
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import {
  createWebhookHandler,
  memoryStore,
  StayhookClient,
  sharedSecret,
  type WebhookHandler,
} from "stayhook";
import { toNodeHandler } from "stayhook/node";
import * as z from "zod";
import type { LogEntry } from "../src/logger.ts";
import { openStore, type StoreName } from "./open-store.ts";
import { postgresInserts, sqliteInserts } from "./plain-inserts.ts";
import { secrets } from "./secrets.ts";

export interface Contestant {
  readonly listener: RequestListener;
  close?(): Promise<unknown> | unknown;
}

const client = new StayhookClient({ baseUrl: "https://platform.example", accessToken: "token" });
const logger = ({ level, message }: LogEntry): void => {
  if (level === "error") console.error(message);
};
// Do not process events, because this benchmark measures only the time from the request to the answer.
const base = { client, on: {}, autoStart: false, verify: false, logger } as const;
const inMemory = (options = {}): WebhookHandler =>
  createWebhookHandler({ ...base, store: memoryStore(), ...options });

export const contestants: Readonly<Record<string, () => Contestant | Promise<Contestant>>> = {
  bare: () => reading((text) => JSON.parse(text)),
  zod: () => {
    const id = z.uuid();
    const Notification = z.object({
      eventId: id,
      timestamp: z.iso.datetime(),
      bookingCode: z.string().nullish(),
      listingId: z.int().nullish(),
    });
    return reading((text) => Notification.parse(JSON.parse(text)));
  },
  memory: () => ({ listener: toNodeHandler(inMemory()) }),
  sharedSecret: () => ({
    listener: toNodeHandler(inMemory({ verify: sharedSecret({ query: "key", secret: secrets.query }) })),
  }),
  SQLite: () => stored("SQLite"),
  PostgreSQL: () => stored("PostgreSQL"),
  Redis: () => stored("Redis"),
  MySQL: () => stored("MySQL"),
  sqliteInserts: () => inserting(sqliteInserts()),
  postgresInserts: async () => inserting(await postgresInserts()),
  stripe: async () => {
    const { default: Stripe } = await peer("stripe");
    const { webhooks } = new Stripe("sk_test");
    return reading((text, { headers }) =>
      webhooks.constructEvent(text, headers["stripe-signature"], secrets.stripe),
    );
  },
  svix: async () => {
    const { Webhook } = await peer("svix");
    const webhook = new Webhook(secrets.svix);
    return reading((text, { headers }) => webhook.verify(text, headers));
  },
  octokit: async () => {
    const { Webhooks } = await peer("@octokit/webhooks");
    const webhooks = new Webhooks({ secret: secrets.octokit });
    return reading((payload, { headers }) =>
      webhooks.verifyAndReceive({
        id: headers["x-github-delivery"],
        name: headers["x-github-event"],
        signature: headers["x-hub-signature-256"],
        payload,
      }),
    );
  },
  bareFetch: () => ({
    listener: overFetch(async (request) => {
      JSON.parse(await request.text());
      return new Response(RECEIVED, { headers: { "content-type": "application/json" } });
    }),
  }),
  fetch: () => ({ listener: overFetch(inMemory().fetch) }),
};

/** Imports a peer. The type checker does not know the peers, because only `npm run bench` installs them. */
const peer = (name: string) => import(name);

const RECEIVED = '{"received":true}';

/** Makes a server that reads the body, passes it to `use`, and answers. */
function reading(use: (text: string, request: IncomingMessage) => unknown): Contestant {
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", async () => {
      try {
        const used = use(Buffer.concat(chunks).toString(), request);
        if (used instanceof Promise) await used;
        answer(response, 200, RECEIVED);
      } catch (error) {
        answer(response, 400, String(error));
      }
    });
  };
  return { listener };
}

function answer(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { "content-type": "application/json", "content-length": body.length }).end(body);
}

async function stored(name: StoreName): Promise<Contestant> {
  const { store, close } = await openStore(name);
  return { listener: toNodeHandler(createWebhookHandler({ ...base, store })), close };
}

function inserting({ insert, close }: ReturnType<typeof sqliteInserts>): Contestant {
  return { ...reading((text) => insert(JSON.parse(text).eventId, text)), close };
}

/** Makes a `Request` and writes a `Response`, as the Node server of a fetch framework does. */
function overFetch(handle: (request: Request) => Promise<Response>): RequestListener {
  const exchange = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = "", url = "", headers } = request;
    const body = Readable.toWeb(request) as ReadableStream<Uint8Array>;
    const init = { method, headers: headers as Record<string, string>, body, duplex: "half" };
    const result = await handle(new Request(`http://${headers.host}${url}`, init));
    response.writeHead(result.status, Object.fromEntries(result.headers)).end(await result.text());
  };
  return (request, response) => void exchange(request, response);
}
