// Rules for what a command copies to another place.

import { readState, writeState } from "../reconcile/state.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";

/** Whether a process is handling the event. The lease of a process that died has ended, or ends soon. */
export const isHeld = ({ state, dueAt }: StoredEvent): boolean =>
  state === "processing" && dueAt !== null && dueAt.getTime() > Date.now();

/** Lets an event wait whose process died. Its lease has ended. */
export const asWaiting = (event: StoredEvent): StoredEvent =>
  event.state === "processing" ? { ...event, state: "retrying" } : event;

/**
 * Copies the place where the reconciler goes on, unless the target has one.
 *
 * @param account - the account that gets the place. Default: none
 * @returns the text of the place in the source. `undefined` if it has none
 */
export async function copyPlace(
  source: EventStore<unknown>,
  target: EventStore<unknown>,
  account?: string,
): Promise<string | undefined> {
  const place = await readState(source);
  const there = await readState(target, account);
  if (place.text !== undefined && there.text === undefined)
    await writeState(target, there, { ...place.state, owner: null, elapsed: place.sinceBegun }, account);
  return place.text;
}
