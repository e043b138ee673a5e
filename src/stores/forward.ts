import { InvalidArgumentError } from "../errors.ts";
import type { IntakeStore, NewEvent } from "./event-store.ts";

/**
 * A store for those who have a queue already: hands each event to `send`, and has the notification answered
 * 200 when that resolves. What is answered is then as durable as the queue, which de-duplicates (by
 * `event.eventId`), retries and keeps dead letters; its worker calls `webhooks.process(notification)`.
 *
 * @param send - resolves when the queue has the event safely; where it rejects, the answer is 503
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
