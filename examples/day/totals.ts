/** What was counted, on both sides, when the day is over. */
export interface Totals {
  /** Moves at the platform that are an event. */
  readonly moves: number;
  /** Of the platform: what it sent, and how many of them were answered 200. */
  readonly deliveries: number;
  readonly answered200: number;
  /** Of the subscriber: what it took for new, and what for known. */
  readonly events: number;
  readonly duplicates: number;
  readonly callbacks: number;
  readonly retries: number;
  readonly nightsBlocked: number;
  readonly nightsReleased: number;
  /** Bookings in the subscriber's calendar; bookings that are Confirmed at the platform, and their nights. */
  readonly blockedCodes: readonly string[];
  readonly confirmedCodes: readonly string[];
  readonly nightsConfirmed: number;
}

/** Two figures that were counted apart and have to be the same. */
export interface Sum {
  readonly text: string;
  readonly holds: boolean;
}

export function sumUp(totals: Totals): Sum[] {
  const { moves, deliveries, answered200, events, duplicates, callbacks, retries } = totals;
  const { nightsBlocked, nightsReleased, nightsConfirmed, blockedCodes, confirmedCodes } = totals;
  return [
    {
      text: `${moves} moves at the platform = ${events} events at the subscriber`,
      holds: moves === events && moves > 0,
    },
    {
      text: `${deliveries} deliveries = 2 × ${moves} moves`,
      holds: deliveries === 2 * moves,
    },
    {
      text: `${deliveries} deliveries = ${answered200} answered 200`,
      holds: deliveries === answered200,
    },
    {
      text: `${deliveries} deliveries = ${events} new + ${duplicates} duplicates`,
      holds: deliveries === events + duplicates,
    },
    {
      text: `${callbacks} callbacks = ${events} events + ${retries} retried`,
      holds: callbacks === events + retries,
    },
    {
      text: `${nightsBlocked} nights blocked − ${nightsReleased} released = ${nightsConfirmed} nights Confirmed at the platform`,
      holds: nightsBlocked - nightsReleased === nightsConfirmed,
    },
    {
      text: `${blockedCodes.length} bookings in the calendar = the ${confirmedCodes.length} Confirmed at the platform`,
      holds: [...blockedCodes].sort().join() === [...confirmedCodes].sort().join(),
    },
  ];
}
