import { randomUUID } from "node:crypto";
import type { Outcome } from "../../src/stores/event-store.ts";
import type { NewEvent, StoredEvent } from "../../src/stores/stored-event.ts";

export function eventOf(ref: string | null = "booking:A", eventId: string = randomUUID()): NewEvent {
  return {
    ...{ eventId, ref, source: "webhook", topic: null, notification: "{}", traceparent: null },
    timestamp: "2026-03-01T10:00:00.000Z",
  };
}

/** An event as a store lists it. By default it is pending, and due now. */
export function storedEvent(given: Partial<StoredEvent> = {}): StoredEvent {
  const now = new Date();
  return {
    ...eventOf(given.ref, given.eventId),
    ...{ state: "pending", attempts: 0, receivedAt: now, dueAt: now, doneAt: null, type: null, reason: null },
    ...{ failures: 0, refusals: 0, firstDueAt: given.dueAt ?? now, history: [], traceparent: null },
    ...given,
  };
}

export const silent = (): void => {};

export const CONFIRMED = { status: "Confirmed", fields: { checkIn: "2026-03-02" } } as const;
export const DONE = {
  state: "done",
  type: "booking.Confirmed",
  entry: { duration: 5 },
  record: { snapshot: CONFIRMED, changed: true },
} as const satisfies Outcome;
export const PARKED = {
  state: "parked",
  reason: "not-found",
  entry: { duration: 5, reason: "not-found", error: "404" },
} as const satisfies Outcome;
export const RETRY = {
  state: "retrying",
  in: 0,
  reason: "callback",
  entry: { duration: 5, reason: "callback", error: "x" },
} as const satisfies Outcome;
export const CLAIM = { limit: 100, leaseDuration: 60_000 } as const;
