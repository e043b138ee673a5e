import type { StayhookClient } from "../../client/client.ts";
import { ResponseValidationError } from "../../client/errors.ts";
import { StayhookError } from "../../errors.ts";
import type { Booking } from "../../models/booking.ts";
import type { Listing } from "../../models/listing.ts";
import type { Work, WorkContext, WorkResult } from "../../queue/work.ts";
import type { ClaimedEvent } from "../../stores/event-store.ts";
import { eventType } from "../event-type.ts";
import type { WebhookCallbacks } from "../events.ts";
import { parseRef, type Subject } from "../ref.ts";
import { fetchFailure } from "./failures.ts";
import { endOfNote, noteIn } from "./note.ts";

/** The platform gives a request's host this long to decide, ms. */
const TIME_TO_DECIDE = 24 * 60 * 60_000;

export interface DispatchOptions<B extends Booking, L extends Listing, Tx> {
  readonly client: StayhookClient<B, L>;
  readonly on: WebhookCallbacks<B, L, Tx>;
  readonly dispatch: "every" | "changed";
  /** The store ends events in transactions, which the callback's writes can join. */
  readonly transactional: boolean;
}

type Callback = (event: unknown) => unknown;
type Write<Tx> = (tx: Tx) => void | Promise<void>;
/** A fetched record, under the name by which the callback gets it. */
type Fetched = { readonly type: string; readonly status: string; readonly record: Record<string, unknown> };

/** Makes the work of an event: fetch its record, then run the callback for the record's status. */
export function createDispatcher<B extends Booking, L extends Listing, Tx>(
  options: DispatchOptions<B, L, Tx>,
): Work<Tx> {
  return async (claim, context) => {
    const note = noteIn(claim);
    if (note) return endOfNote(claim, note);
    const subject = parseRef(claim.ref);
    if (!subject) return dispatch(options, claim, context, undefined);
    let fetched: Fetched;
    try {
      fetched = await fetchRecord(options.client, subject, context.signal);
    } catch (error) {
      if (error instanceof ResponseValidationError) context.answered();
      return { state: "failed", ...fetchFailure(error) };
    }
    context.answered();
    return dispatch(options, claim, context, fetched);
  };
}

async function fetchRecord(
  client: StayhookClient<Booking, Listing>,
  subject: Subject,
  signal: AbortSignal,
): Promise<Fetched> {
  // The queue repeats what fails, and has to hear of an outage at once: the client's own retries would hide it.
  const once = { signal, maxRetries: 0 };
  if (subject.kind === "booking") {
    const booking = await client.bookings.get(subject.bookingCode, once);
    const { status } = booking;
    return { type: eventType(subject.kind, status), status, record: { booking } };
  }
  const listing = await client.listings.get(subject.listingId, once);
  const { status } = listing;
  return { type: eventType(subject.kind, status), status, record: { listing } };
}

async function dispatch<B extends Booking, L extends Listing, Tx>(
  options: DispatchOptions<B, L, Tx>,
  claim: ClaimedEvent,
  context: WorkContext,
  fetched: Fetched | undefined,
): Promise<WorkResult<Tx>> {
  const type = fetched?.type ?? "unknown";
  const status = fetched?.status;
  const unchanged = fetched !== undefined && status === claim.previousStatus;
  const callback = callbackFor(options.on, type);
  // The reconciler has seen a change: if there is none any more, a webhook was faster, or it was taken back.
  const onChange = options.dispatch === "changed" || claim.source === "reconcile";
  if (!callback || (onChange && unchanged && !claim.replayed)) {
    return { state: "done", type, status };
  }
  const writes = new Writes<Tx>();
  const event = {
    type,
    ...common(options.client, claim, context),
    ...(fetched && { status, ...fetched.record, previousStatus: claim.previousStatus, changed: !unchanged }),
    ...(type === "booking.Request" && {
      decideBy: new Date(Date.parse(claim.timestamp) + TIME_TO_DECIDE),
    }),
    ...(options.transactional && { atomically: writes.add }),
  };
  try {
    await callback(event);
  } catch (error) {
    return { state: "failed", reason: "callback", error, type };
  } finally {
    writes.close();
  }
  return { state: "done", type, status, writes: writes.list };
}

function common<B extends Booking, L extends Listing>(
  client: StayhookClient<B, L>,
  claim: ClaimedEvent,
  context: WorkContext,
) {
  return {
    eventId: claim.eventId,
    timestamp: new Date(claim.timestamp),
    receivedAt: new Date(claim.receivedAt),
    source: claim.source,
    notification: claim.notification === null ? undefined : JSON.parse(claim.notification),
    ...(claim.topic !== null && { topic: claim.topic }),
    attempt: claim.attempts,
    signal: context.signal,
    client,
  };
}

/** Own properties only: a status called `constructor` is just unknown. */
function callbackFor<B extends Booking, L extends Listing, Tx>(
  on: WebhookCallbacks<B, L, Tx>,
  type: string,
): Callback | undefined {
  const callbacks = on as Readonly<Record<string, Callback | undefined>>;
  const own = (name: string) => (Object.hasOwn(callbacks, name) ? callbacks[name] : undefined);
  return own(type) ?? own("fallback");
}

/** What the callback wants written together with the end of its event. */
class Writes<Tx> {
  readonly list: Write<Tx>[] = [];
  #open = true;

  readonly add = (write: (tx: Tx) => unknown): void => {
    if (!this.#open) {
      throw new StayhookError(
        "event.atomically() was called after the callback had returned: its event may be recorded as done already. Await what the callback starts.",
      );
    }
    if (typeof write !== "function") throw new TypeError("event.atomically() takes a function");
    this.list.push(write as Write<Tx>);
  };

  close(): void {
    this.#open = false;
  }
}
