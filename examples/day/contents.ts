import type { DatabaseSync } from "node:sqlite";
import type { EventState, EventStore } from "stayhook/store";

/** The contents of the file: the store's events, and the subscriber's own two tables. */
export interface Contents {
  readonly events: readonly { readonly eventId: string; readonly state: EventState }[];
  readonly calendar: readonly CalendarRow[];
  readonly journal: readonly { readonly eventId: string; readonly nights: number }[];
}

export interface CalendarRow {
  readonly bookingCode: string;
  readonly checkIn: string;
  readonly checkOut: string;
  readonly nights: number;
}

export async function readContents(store: EventStore<DatabaseSync>, db: DatabaseSync): Promise<Contents> {
  const events = await store.list({ limit: 1000 });
  return {
    events: events.map(({ eventId, state }) => ({ eventId, state })),
    calendar: db.prepare("SELECT * FROM calendar").all() as unknown as CalendarRow[],
    journal: db.prepare("SELECT * FROM journal").all() as unknown as Contents["journal"],
  };
}

/** Returns the ids of the events in a state. */
export const inState = ({ events }: Contents, wanted: EventState): string[] =>
  events.filter(({ state }) => state === wanted).map(({ eventId }) => eventId);
