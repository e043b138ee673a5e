import { stay } from "stayhook";
import type { Sandbox } from "stayhook/testing";
import { type Contents, inState } from "./contents.ts";
import type { Tally } from "./tally.ts";
import type { Totals } from "./totals.ts";

/** The state at the moment of the kill. */
export interface AtTheKill {
  /** Events that were answered 200 before the kill. */
  readonly answered: number;
  /** Callbacks that were running at the kill. */
  readonly cut: number;
}

/** Collects the counts of both sides, each from the place where it was counted. */
export function gather(sandbox: Sandbox, tally: Tally, atTheKill: AtTheKill, moves: number): Totals {
  const [, afterTheKill] = tally.opened as [Contents, Contents];
  const file = tally.closed as Contents;
  const { deliveries } = sandbox;
  const nights = file.journal.map((entry) => entry.nights);
  return {
    moves,
    deliveries: {
      sent: deliveries.length,
      answered200: deliveries.filter(({ status }) => status === 200).length,
      unanswered: deliveries.filter(({ error }) => error !== undefined).length,
    },
    received: tally.received,
    duplicates: tally.duplicates,
    callbacks: { begun: tally.begun, failed: tally.failed, cut: atTheKill.cut },
    recorded: file.events.length,
    done: inState(file, "done").length,
    journal: file.journal.map(({ eventId }) => eventId),
    kill: {
      answered: atTheKill.answered,
      done: inState(afterTheKill, "done").length,
      begun: inState(afterTheKill, "processing").length,
      waiting: inState(afterTheKill, "pending").length,
    },
    nightsBlocked: sum(nights.filter((change) => change > 0)),
    nightsReleased: -sum(nights.filter((change) => change < 0)),
    calendar: file.calendar,
    confirmed: sandbox.bookings
      .list()
      .filter(({ status }) => status === "Confirmed")
      .map((booking) => ({ bookingCode: booking.bookingCode, ...stay(booking) })),
  };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
