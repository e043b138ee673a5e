import type { EventStore, Outcome } from "../../../src/stores/event-store.ts";
import type { ClaimedEvent } from "../../../src/stores/stored-event.ts";

/** How often a call is tried, if the connection breaks each time. */
const TRIES = 20;

/** Tries each call of a store again after an error, as the callers of a store do. */
export function patient(store: EventStore<unknown>): EventStore<unknown> & { readonly failures: number } {
  let failures = 0;
  const again = async <T>(call: () => Promise<T>): Promise<T> => {
    for (let tries = 1; ; tries += 1) {
      try {
        return await call();
      } catch (error) {
        failures += 1;
        if (tries === TRIES) throw error;
      }
    }
  };
  const changed: Partial<EventStore<unknown>> = {
    // Each id of the race is new. The first call may have recorded the event, and another handle may have claimed it.
    add: (event, options) =>
      again(async () => {
        const answer = await store.add(event, options);
        return answer === "duplicate" ? "added" : answer;
      }),
    // An earlier call whose answer was lost, or another handle, may have replayed the event. The end of a round finds an
    // event that nobody replayed.
    replay: (filter) => again(async () => Math.max(1, await store.replay(filter))),
    // The store gives the events of a lost claim back.
    claim: (options) =>
      store.claim(options).catch((): ClaimedEvent[] => {
        failures += 1;
        return [];
      }),
    // A settle is repeated after an error, here or in the store. Another handle may have claimed an event that waits again
    // meanwhile. Then no lease proves the first call, but the history does.
    settle: (claim, outcome) =>
      again(async () => (await store.settle(claim, outcome)) || (await isRecorded(claim, outcome))),
    renew: (claims, duration) => again(() => store.renew(claims, duration)),
    nextDue: () => again(() => store.nextDue()),
    counts: () => again(() => store.counts()),
  };
  const isRecorded = async ({ eventId, claimedAt }: ClaimedEvent, { state }: Outcome<unknown>) => {
    if (state === "done" || state === "parked") return false;
    const { history } = (await store.get(eventId))!;
    const outcomes = history.filter(({ at }) => at.getTime() === claimedAt).map(({ outcome }) => outcome);
    return state === "released" ? !outcomes.includes("lost") : outcomes.includes(state);
  };
  return new Proxy(store as EventStore<unknown> & { readonly failures: number }, {
    get(target, name) {
      if (name === "failures") return failures;
      const value: unknown = changed[name as keyof typeof changed] ?? Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
