import { afterEach, beforeEach, expect, vi } from "vitest";
import { Log, type LogEntry } from "../../../src/logger.ts";
import type { NewEvent } from "../../../src/stores/stored-event.ts";
import type { ReceiveObservation } from "../../../src/webhooks/receiving/answers.ts";
import { type Received, Receiver, type ReceiverOptions } from "../../../src/webhooks/receiving/receive.ts";
import type { ReceiveRequest } from "../../../src/webhooks/receiving/request.ts";

export const EVENT_ID = "0b0e7a0c-5a52-4d6e-9a37-3f0f6f1f2a11";

export const bookingNotification = {
  eventId: EVENT_ID,
  timestamp: "2026-03-01T10:00:00Z",
  bookingCode: "HX-1",
  listingId: null,
};

export interface Harness {
  readonly receive: Receiver["receive"];
  readonly added: NewEvent[];
  readonly seen: ReceiveObservation[];
  readonly log: LogEntry[];
  /** POSTs a body. Default: the JSON of a notification. */
  post(request?: Partial<ReceiveRequest>): Promise<Received>;
}

/** Makes a receiver whose `add` keeps events in a list. It also keeps the log. */
export function harness(options: Partial<ReceiverOptions> = {}): Harness {
  const added: NewEvent[] = [];
  const seen: ReceiveObservation[] = [];
  const log: LogEntry[] = [];
  const receiver = new Receiver({
    verify: undefined,
    maxBodyBytes: 1_000,
    maxBacklog: 1_000_000,
    replyWithin: 25_000,
    counts: undefined,
    isKnown: async () => false,
    add: async (event) => {
      const known = added.some(({ eventId }) => eventId === event.eventId);
      if (!known) added.push(event);
      return known ? "duplicate" : "added";
    },
    observe: (event) => void seen.push(event),
    log: new Log((entry) => void log.push(entry)),
    ...options,
  });
  const receive: Harness["receive"] = (request) => receiver.receive(request);
  const post: Harness["post"] = (request) =>
    receive({
      method: "POST",
      url: "/hooks",
      headers: {},
      body: JSON.stringify(bookingNotification),
      ...request,
    });
  return { receive, added, seen, log, post };
}

/** Returns the status that a receiver with these options answers to a request. */
export const statusOf = async (request: Partial<ReceiveRequest>, options?: Partial<ReceiverOptions>) =>
  (await harness(options).post(request)).result.status;

/** Gives each test a clock that the test moves. Fails if a test leaves an unhandled rejection. */
export function useFakeTime(): void {
  const unhandled = vi.fn();
  beforeEach(() => {
    process.on("unhandledRejection", unhandled);
    vi.useFakeTimers();
  });
  afterEach(async () => {
    vi.useRealTimers();
    await new Promise((resolve) => setTimeout(resolve, 10));
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });
}

/** Moves the clock, and returns the result that comes after `ms`. Fails if it comes earlier or later. */
export async function resultAfter(ms: number, answer: Promise<Received>) {
  let answered = false;
  void answer.finally(() => {
    answered = true;
  });
  await vi.advanceTimersByTimeAsync(ms - 5);
  expect(answered).toBe(false);
  await vi.advanceTimersByTimeAsync(10);
  expect(answered).toBe(true);
  return (await answer).result;
}

/** Makes a stream that counts the requested chunks, and tells whether it was canceled. */
export function countingStream(chunks: Iterable<Uint8Array>): {
  readonly stream: ReadableStream<Uint8Array>;
  readonly state: { pulled: number; cancelled: boolean };
} {
  const state = { pulled: 0, cancelled: false };
  const iterator = chunks[Symbol.iterator]();
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const { done, value } = iterator.next();
        if (done) return controller.close();
        state.pulled++;
        controller.enqueue(value);
      },
      cancel() {
        state.cancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, state };
}

export const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Parses a problem+json answer. */
export function problemOf(body: string): {
  title: string;
  status: number;
  detail: string;
  errors?: { path: (string | number)[]; message: string }[];
} {
  return JSON.parse(body);
}
