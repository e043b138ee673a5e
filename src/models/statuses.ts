// The table of statuses, which the event types, the sandbox, the reconciler and the docs are derived from.

/** How the sandbox changes a record to a status. */
export interface StatusMove<Verb extends string = string> {
  /** The method of the sandbox, the command of its shell, and the button of its page. */
  readonly verb: Verb;
  /** The shell's help. */
  readonly help: string;
  /** Whether a record in this status can make the move. */
  readonly from: (status: string) => boolean;
}

/** What this package knows of a status. */
export interface Status<Name extends string = string, Verb extends string = string> {
  readonly name: Name;
  /** When an event with this status comes. docs/events.md shows the text. */
  readonly when: string;
  /** The color of the status on the sandbox's page. */
  readonly tone: "plain" | "wait" | "good" | "bad";
  /** Whether the reconciler stops reading a record, because the status never changes again. */
  readonly final?: boolean;
  /** Without a move, the sandbox only makes records that begin with this status. */
  readonly move?: StatusMove<Verb>;
}

/** The statuses of a booking that this package knows. */
export const bookingTable = [
  { name: "Initiated", when: "a guest has begun to book", tone: "plain" },
  { name: "Request", when: "a guest asks to book", tone: "wait" },
  {
    name: "Confirmed",
    when: "the booking is confirmed, by Instant Book or by the host",
    tone: "good",
    move: { verb: "approve", help: "the host approves", from: (status) => status === "Request" },
  },
  {
    name: "Declined",
    when: "the host declined the request",
    tone: "bad",
    final: true,
    move: { verb: "decline", help: "the host declines", from: (status) => status === "Request" },
  },
  {
    name: "Cancelled",
    when: "the booking is cancelled",
    tone: "bad",
    move: {
      verb: "cancel",
      help: "the booking is cancelled",
      from: (status) => status !== "Declined" && status !== "Cancelled",
    },
  },
] as const satisfies readonly Status[];

/** The statuses in which a stay holds, unless the handler's option `holds` names others. */
export const HOLDS: readonly string[] = ["Confirmed", "InHouse"];

/** Whether a stay holds in a status. Letter case does not matter. */
export function holdsIn(status: string, holds: readonly string[]): boolean {
  const fold = (text: string) => knownStatus("booking", text).toLowerCase();
  return holds.some((each) => fold(each) === fold(status));
}

/** The status that this package gives a record that it knew, and that the platform no longer returns. */
export const GONE = "gone";

/** The statuses of a listing that this package knows. */
export const listingTable = [
  { name: "InReview", when: "the platform reviews the listing", tone: "wait" },
  {
    name: "Published",
    when: "the listing is live",
    tone: "good",
    move: {
      verb: "publish",
      help: "a listing goes live",
      from: (status) => status === "InReview" || status === "Hidden",
    },
  },
  {
    name: "Hidden",
    when: "the listing is delisted",
    tone: "plain",
    move: {
      verb: "hide",
      help: "a listing is hidden",
      from: (status) => status === "InReview" || status === "Published",
    },
  },
] as const satisfies readonly Status[];

/** By kind of record and folded spelling: the status. */
const spellings = {
  booking: spellingsOf(bookingTable),
  listing: spellingsOf(listingTable),
} as const;

function spellingsOf(table: readonly Status[]): ReadonlyMap<string, string> {
  return new Map(
    table.flatMap(({ name }) => {
      const lower = name.toLowerCase();
      return [lower, lower.replace("ll", "l")].map((spelling) => [spelling, name] as const);
    }),
  );
}

/**
 * Returns the status that a text stands for, in the spelling of the tables: letter case does not matter, and `Canceled`
 * is `Cancelled`. Returns any other text unchanged.
 */
export function knownStatus(kind: "booking" | "listing", status: string): string {
  return spellings[kind].get(status.toLowerCase()) ?? status;
}
