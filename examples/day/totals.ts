import type { CalendarRow } from "./contents.ts";

/** The counts of both sides at the end of the day. */
export interface Totals {
  /** Moves at the platform. Each is one event. */
  readonly moves: number;
  readonly deliveries: Deliveries;
  /** New and duplicate notifications at the subscriber. */
  readonly received: number;
  readonly duplicates: number;
  readonly callbacks: Callbacks;
  /** Events in the subscriber's file, and the done ones among them. */
  readonly recorded: number;
  readonly done: number;
  /** Ids of the events in the journal. */
  readonly journal: readonly string[];
  readonly kill: Kill;
  readonly nightsBlocked: number;
  readonly nightsReleased: number;
  /** The subscriber's calendar, and the Confirmed bookings at the platform. */
  readonly calendar: readonly CalendarRow[];
  readonly confirmed: readonly CalendarRow[];
}

/** The platform's counts: all deliveries, those answered 200, and those without answer. */
export interface Deliveries {
  readonly sent: number;
  readonly answered200: number;
  readonly unanswered: number;
}

/** The subscriber's counts. The kill interrupted `cut` callbacks. `begun` includes these and the failed ones. */
export interface Callbacks {
  readonly begun: number;
  readonly failed: number;
  readonly cut: number;
}

/** Counts around the kill: events answered 200 before it, and events on disk after it. */
export interface Kill {
  readonly answered: number;
  readonly done: number;
  readonly begun: number;
  readonly waiting: number;
}

/** Figures that were counted separately and must be equal. */
export interface Sum {
  readonly text: string;
  readonly holds: boolean;
}

export function sumUp(totals: Totals): Sum[] {
  return [...sumUpEvents(totals), ...sumUpKill(totals), ...sumUpNights(totals)];
}

function sumUpEvents({ moves, deliveries, received, duplicates, callbacks, ...file }: Totals): Sum[] {
  const { sent, answered200, unanswered } = deliveries;
  const { recorded, done, journal } = file;
  const { begun, failed, cut } = callbacks;
  return [
    {
      text: `${sent} deliveries = ${answered200} answered 200 + ${unanswered} that nobody answered`,
      holds: sent === answered200 + unanswered && unanswered > 0,
    },
    {
      text: `${answered200} answered 200 = 2 × ${moves} moves at the platform`,
      holds: answered200 === 2 * moves && moves > 0,
    },
    {
      text: `${answered200} answered 200 = ${received} new + ${duplicates} duplicates`,
      holds: answered200 === received + duplicates,
    },
    {
      text: `${recorded} events recorded = ${moves} moves at the platform`,
      holds: recorded === moves,
    },
    {
      text: `${done} events done = ${journal.length} entries in the journal, one for each`,
      holds: done === recorded && done === journal.length && done === new Set(journal).size,
    },
    {
      text: `${begun} callbacks begun = ${journal.length} ended + ${cut} cut by the kill + ${failed} failed`,
      holds: begun === journal.length + cut + failed,
    },
  ];
}

function sumUpKill({ kill, callbacks }: Totals): Sum[] {
  const { answered, done, begun, waiting } = kill;
  return [
    {
      text: `${answered} events answered 200 before the kill = ${done} done + ${begun} begun + ${waiting} waiting, on disk after it`,
      holds: answered === done + begun + waiting,
    },
    {
      text: `${callbacks.cut} callbacks cut by the kill = ${begun} events begun, on disk after it`,
      holds: callbacks.cut === begun && begun > 0 && waiting > 0,
    },
  ];
}

function sumUpNights({ nightsBlocked, nightsReleased, calendar, confirmed }: Totals): Sum[] {
  const nightsConfirmed = confirmed.reduce((sum, { nights }) => sum + nights, 0);
  return [
    {
      text: `${nightsBlocked} nights blocked − ${nightsReleased} released = ${nightsConfirmed} nights Confirmed at the platform`,
      holds: nightsBlocked - nightsReleased === nightsConfirmed,
    },
    {
      text: `${calendar.length} stays in the calendar = the ${confirmed.length} Confirmed at the platform`,
      holds: listed(calendar) === listed(confirmed),
    },
  ];
}

const listed = (rows: readonly CalendarRow[]): string =>
  rows
    .map(({ bookingCode, checkIn, checkOut, nights }) => [bookingCode, checkIn, checkOut, nights].join())
    .sort()
    .join();
