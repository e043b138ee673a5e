// Rules for events that a command copies to another place.

import type { StoredEvent } from "../stores/stored-event.ts";

/** Whether a process is handling the event. The lease of a process that died has ended, or ends soon. */
export const isHeld = ({ state, dueAt }: StoredEvent): boolean =>
  state === "processing" && dueAt !== null && dueAt.getTime() > Date.now();

/** Lets an event wait whose process died. Its lease has ended. */
export const asWaiting = (event: StoredEvent): StoredEvent =>
  event.state === "processing" ? { ...event, state: "retrying" } : event;
