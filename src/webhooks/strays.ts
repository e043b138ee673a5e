// Tells how many events have no account, in a handler with `accountFrom`.

import { accountOf } from "../account.ts";
import type { Log } from "../logger.ts";
import { eachEvent } from "../stores/each-event.ts";
import type { EventStore } from "../stores/event-store.ts";

/** What `webhooks.ready()` found in a handler with `accountFrom`. */
export type ReadyReport = {
  /** How many events without an account wait or are parked; 10,000 if there are more. The handler handles none of them. */
  readonly eventsWithoutAccount: number;
};

const STATES = ["pending", "retrying", "scheduled", "parked"] as const;
/** The number of events that one call lists, and the number of events that are looked at in each state. */
const [PAGE, MOST] = [500, 10_000];

/** Makes a function that counts the events without an account. Logs a warning once if there are any. */
export function strayCounter(store: Pick<EventStore<never>, "list">, log: Log): () => Promise<ReadyReport> {
  let isTold = false;
  return async () => {
    const counts = await Promise.all(STATES.map((state) => countIn(store, state)));
    const eventsWithoutAccount = Math.min(
      MOST,
      counts.reduce((sum, count) => sum + count),
    );
    if (eventsWithoutAccount > 0 && !isTold) {
      isTold = true;
      log.warn(
        `${eventsWithoutAccount}${eventsWithoutAccount === MOST ? " or more" : ""} events have no account, so this handler does not handle them. ` +
          "To give them to an account, run `npx stayhook events adopt --account <account>`",
      );
    }
    return { eventsWithoutAccount };
  };
}

async function countIn(
  store: Pick<EventStore<never>, "list">,
  state: (typeof STATES)[number],
): Promise<number> {
  let count = 0;
  let seen = 0;
  for await (const event of eachEvent(store, { state }, { page: PAGE })) {
    if (accountOf(event) === undefined) count += 1;
    seen += 1;
    if (seen === MOST) break;
  }
  return count;
}
