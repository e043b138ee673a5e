import { v5 } from "uuid";
import { pause } from "../../async.ts";
import type { AddOptions, ClaimedEvent, NewEvent } from "../../stores/event-store.ts";

/** The handler makes no other UUIDs in this namespace. */
const NAMESPACE = "0d0c6f3e-7a55-4a0b-9a43-6a1f3f0f5d27";
/** The wait before another try to add an event, ms. */
const ADD_AGAIN = 1000;
/** How many recheck ids are remembered, so that a burst of notifications asks the store once. */
const KNOWN_RECHECKS = 1000;

export interface FurtherEventsOptions {
  /** Adds an event to the store and wakes the queue. */
  readonly add: (event: NewEvent, options?: AddOptions) => Promise<"added" | "duplicate" | "conflict">;
  /** Handles an event again. */
  readonly replay: (eventId: string) => Promise<unknown>;
  /** Called when a follow-up event is in the store. */
  readonly onFollowUp: (eventId: string, followUpId: string) => void;
  /** ms; `false`: no rechecks. */
  readonly recheckAfter: number | false;
}

/** Adds rechecks and follow-up events. */
export class FurtherEvents {
  readonly #options: FurtherEventsOptions;
  readonly #rechecks = new Set<string>();

  constructor(options: FurtherEventsOptions) {
    this.#options = options;
  }

  /** Schedules another read of the record, because the platform may notify before its own answers show the change. */
  async recheck(claim: ClaimedEvent, timestamp: Date, decideBy: Date | undefined, signal: AbortSignal) {
    const { recheckAfter } = this.#options;
    if (recheckAfter === false || claim.ref === null) return;
    const eventId = idOf("recheck", claim.ref, Math.floor(claim.receivedAt / recheckAfter));
    if (this.#rechecks.has(eventId)) return;
    const event: NewEvent = {
      eventId,
      ref: claim.ref,
      source: "recheck",
      topic: null,
      timestamp: timestamp.toISOString(),
      notification: JSON.stringify({ recheckOf: claim.eventId, decideBy }),
      traceparent: claim.traceparent ?? null,
    };
    if ((await this.#add(event, signal, { dueIn: recheckAfter })) === undefined) return;
    for (const oldest of this.#rechecks) {
      if (this.#rechecks.size < KNOWN_RECHECKS) break;
      this.#rechecks.delete(oldest);
    }
    this.#rechecks.add(eventId);
  }

  /** Adds an event with the same notification under the ref of the booking's own code. */
  async followUp(claim: ClaimedEvent, ref: string, timestamp: Date, signal: AbortSignal): Promise<void> {
    const eventId = followUpId(claim.eventId, ref);
    const { source, topic, notification, traceparent = null } = claim;
    const event = {
      eventId,
      ref,
      source,
      topic,
      timestamp: timestamp.toISOString(),
      notification,
      traceparent,
    };
    const added = await this.#add(event, signal);
    if (added !== "added" && claim.replayed) await this.#options.replay(eventId);
    this.#options.onFollowUp(claim.eventId, eventId);
  }

  /** Repeats while the store fails, because that is no failure of the event. `undefined` if the signal aborts. */
  async #add(event: NewEvent, signal: AbortSignal, options?: AddOptions) {
    while (!signal.aborted) {
      try {
        return await this.#options.add(event, options);
      } catch {
        await pause(ADD_AGAIN, signal);
      }
    }
    return undefined;
  }
}

/** The id of the event that follows `eventId` under `ref`. */
export function followUpId(eventId: string, ref: string): string {
  return idOf("follow-up", eventId, ref);
}

function idOf(...parts: readonly (string | number)[]): string {
  return v5(JSON.stringify(parts), NAMESPACE);
}
