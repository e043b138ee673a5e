// The form in which stores keep an event id.

const OWN = "stayhook:";

/** Returns the id in the form that stores keep: in lower case, unless it is an id of the package's own events. */
export function storedId(eventId: string): string {
  return eventId.slice(0, OWN.length).toLowerCase() === OWN ? eventId : eventId.toLowerCase();
}
