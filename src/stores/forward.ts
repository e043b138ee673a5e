import { InvalidArgumentError } from "../errors.ts";
import type { NewEvent } from "./event-store.ts";

/** Passes events to another queue, which processes them. `forwardTo` makes one. */
export interface IntakeStore {
  /** Tells the handler that another queue processes the events. */
  readonly intakeOnly: true;
  /** Resolves when the queue has the event. The queue de-duplicates. */
  add(event: NewEvent): Promise<"added">;
  /** Does nothing. Close the queue yourself. */
  close(): Promise<void>;
}

/**
 * Passes events to a queue that you already run. The handler answers 200 when `send` resolves, so an event is as durable
 * as the queue. The queue removes duplicates by `event.eventId`, retries and keeps dead letters. Its worker calls
 * `webhooks.process(notification)`.
 *
 * @param send - resolves when the queue has the event safely. If it rejects, the handler answers 503
 * @throws InvalidArgumentError where `send` is no function
 * @example
 * ```ts
 * const store = forwardTo((event) => queue.add("notification", event, { jobId: event.eventId }));
 * ```
 */
export function forwardTo(send: (event: NewEvent) => unknown): IntakeStore {
  if (typeof send !== "function") {
    throw new InvalidArgumentError({ path: [], message: "forwardTo takes a function that sends an event" });
  }
  return {
    intakeOnly: true,
    async add(event) {
      await send(event);
      return "added";
    },
    async close() {},
  };
}
