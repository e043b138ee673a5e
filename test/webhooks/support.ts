import { randomUUID } from "node:crypto";
import type { ClientOptions, Observation, WebhookHandlerOptions } from "stayhook";
import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import type { EventStore } from "stayhook/store";
import { vi } from "vitest";
import { advance, gate } from "../queue/support.ts";

export { advance, HOUR, MINUTE, useFakeTime, watch } from "../queue/support.ts";

export type Answer = { status: number; body?: unknown; headers?: Record<string, string> } | Error;
/** `"none"`: the answer never comes. */
type Given = Answer | "none" | ((reads: number) => Answer);

/** Makes a platform in memory: `answers` by record, and a log of reads. */
export function platformOf() {
  const answers = new Map<string, Given>();
  const reads: string[] = [];
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    init.signal?.throwIfAborted();
    const id = decodeURIComponent(new URL(url).pathname.split("/").at(-1) as string);
    reads.push(id);
    const given = answers.get(id) ?? answers.get("*") ?? { status: 404 };
    const answer = typeof given === "function" ? given(reads.filter((read) => read === id).length) : given;
    if (answer instanceof Error) throw answer;
    if (answer === "none")
      return new Promise<never>((_, reject) => {
        init.signal?.addEventListener("abort", () => reject(init.signal?.reason));
      });
    return Response.json(answer.body ?? {}, { status: answer.status, headers: answer.headers ?? {} });
  };
  return {
    fetch,
    reads,
    answer: (id: string, answer: Given) => void answers.set(id, answer),
    booking: (bookingCode: string, status: string, more: object = {}) =>
      void answers.set(bookingCode, { status: 200, body: { bookingCode, status, ...more } }),
    listing: (listingId: number, status: string, more: object = {}) =>
      void answers.set(String(listingId), { status: 200, body: { listingId, status, ...more } }),
  };
}

export const recordingLogger = () => {
  const lines: string[] = [];
  const log = (...parts: unknown[]) => void lines.push(parts.map(String).join(" "));
  return { lines, debug: log, info: log, warn: log, error: log };
};

export function clientOf(
  { fetch }: { fetch: (url: string, init: RequestInit) => Promise<Response> },
  options: ClientOptions = {},
) {
  return new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: "secret-token",
    fetch,
    ...options,
  });
}

/** Makes a handler with a platform in memory, and keeps its log. */
export function handlerOf({
  clientOf: makeClient = clientOf,
  ...options
}: Partial<WebhookHandlerOptions> & { store?: EventStore; clientOf?: typeof clientOf } = {}) {
  const platform = platformOf();
  const observed: Observation[] = [];
  const logger = recordingLogger();
  const store = options.store ?? memoryStore();
  const client = makeClient(platform);
  const webhooks = createWebhookHandler({
    client,
    on: {},
    verify: false,
    observe: (event) => observed.push(event),
    logger,
    ...options,
    store,
  });
  const deliver = (body: unknown, context?: Parameters<typeof webhooks.fetch>[1]) =>
    webhooks.fetch(
      new Request("https://subscriber.example/hooks", {
        method: "POST",
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
      context,
    );
  /** Delivers a notification of a booking's code, of a listing's id, or with these fields, and lets it be handled. */
  const notify = async (about: string | number | Fields): Promise<string> => {
    const notification = notificationOf(fieldsOf(about));
    await deliver(notification);
    await advance();
    return notification.eventId;
  };
  /** Gives a booking or a listing this status, and notifies of it. */
  const tell = (id: string | number, status = "Confirmed", more?: object): Promise<string> => {
    if (typeof id === "number") platform.listing(id, status, more);
    else platform.booking(id, status, more);
    return notify(id);
  };
  return {
    webhooks,
    client,
    platform,
    store,
    observed,
    logger,
    ...{ deliver, notify, tell },
    kinds: () => observed.map(({ kind }) => kind).filter((kind) => kind !== "started"),
  };
}

/** Makes a handler that has received one notification, and handles it. */
export async function delivered(fields: Fields = {}, options: Parameters<typeof handlerOf>[0] = {}) {
  const handler = handlerOf(options);
  if (fields.bookingCode) handler.platform.booking(fields.bookingCode, "Confirmed");
  const notification = notificationOf(fields);
  const response = await handler.deliver(notification);
  await advance();
  return { ...handler, notification, response, event: () => handler.store.get(notification.eventId) };
}

/** Makes a callback that never ends, and keeps its signals. */
export function endlessCallback() {
  const signals: AbortSignal[] = [];
  const callback = (event: { signal: AbortSignal }) => {
    signals.push(event.signal);
    return new Promise<void>(() => {});
  };
  return { callback, signals, aborted: () => signals.map(({ aborted }) => aborted) };
}

interface Fields {
  eventId?: string;
  timestamp?: string;
  bookingCode?: string | null;
  listingId?: number | null;
  [field: string]: unknown;
}

const fieldsOf = (about: string | number | Fields): Fields =>
  typeof about === "string"
    ? { bookingCode: about }
    : typeof about === "number"
      ? { listingId: about }
      : about;

export function notificationOf(fields: Fields = {}) {
  return {
    eventId: randomUUID() as string,
    timestamp: "2026-05-01T12:00:00Z",
    bookingCode: null as string | null,
    listingId: null as number | null,
    ...fields,
  };
}

/** Makes a callback that the test releases. */
export function heldCallback() {
  const { open: release, opened } = gate();
  return { callback: vi.fn(() => opened), release };
}
