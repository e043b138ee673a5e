import { randomUUID } from "node:crypto";
import type { NewEvent } from "../../../src/stores/event-store.ts";

export function eventOf(ref: string | null = "booking:A", eventId: string = randomUUID()): NewEvent {
  return {
    eventId,
    ref,
    source: "webhook",
    topic: null,
    timestamp: "2026-03-01T10:00:00.000Z",
    notification: "{}",
  };
}

export const DONE = {
  state: "done",
  type: "booking.Confirmed",
  entry: { duration: 1 },
  record: { snapshot: { status: "Confirmed", fields: {} }, changed: true },
} as const;
export const CLAIM = { limit: 100, leaseDuration: 60_000 } as const;
