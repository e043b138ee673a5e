import { InvalidArgumentError } from "../errors.ts";
import type { NewEvent } from "./stored-event.ts";

/** Passes events to another queue, which processes them. `forwardTo` returns an `IntakeStore`. */
export interface IntakeStore {
  /** Tells the handler that another queue processes the events. */
  readonly intakeOnly: true;
  /** Resolves when the queue has stored the event. The queue must remove duplicates. */
  add(event: NewEvent): Promise<"added">;
  /** Does nothing. Close the queue yourself. */
  close(): Promise<void>;
}

/**
 * Passes events to a queue that you already run. The handler answers 200 when `send` resolves, so an event is as
 * durable as the queue. The queue must remove duplicates by `event.eventId`, retry failed jobs, and keep dead
 * letters. A worker of the queue calls `webhooks.process(notification)`.
 *
 * @param send - sends an event, and resolves when the queue has stored it. If `send` rejects, the handler answers 503
 * @throws InvalidArgumentError if `send` is not a function
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
