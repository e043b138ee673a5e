// The event with which `stayhook doctor` tries a store.

import { StayhookError } from "../errors.ts";
import type { Outcome } from "./event-store.ts";
import type { ClaimCall } from "./store-steps.ts";
import type { NewEvent } from "./stored-event.ts";

/** How long the lease of the trial lasts, ms. */
const LEASE = 30_000;

/** Returns an event of no record of the platform, its claim, and the outcome of its attempt. */
export function trialOf() {
  const name = `doctor-${crypto.randomUUID()}`;
  const ref = `booking:${name}`;
  const event: NewEvent = {
    ...{ eventId: name, ref, topic: null, notification: "{}", traceparent: null },
    source: "webhook",
    timestamp: new Date(0).toISOString(),
  };
  const outcome: Outcome = {
    state: "done",
    type: "booking.unknown",
    entry: { duration: 0 },
    record: { snapshot: { status: "unknown", fields: {} }, changed: true },
  };
  const call: ClaimCall = {
    // Both kinds of restriction, so that the trial takes no event of others.
    ...{ only: [ref], except: [`${ref}/`], limit: 1 },
    ...{ leaseDuration: LEASE, token: crypto.randomUUID().slice(9), claimed: [] },
  };
  return { name, ref, event, outcome, call };
}

export function assertDone(step: string, isDone: boolean): void {
  if (!isDone)
    throw new StayhookError(
      `an event of doctor was not ${step}, although the database reported no error. The store does not work on this database`,
    );
}
