// Groups parked events by cause.

import { accountOf, splitKey } from "../account.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { causeOf, parkedAt } from "./cause-key.ts";
import { countOf } from "./flash.ts";

/** Parked events that failed in the same way. */
export interface Cause {
  readonly key: string;
  /** The newest of the events. */
  readonly event: StoredEvent;
  readonly count: number;
  /** The refs of their records, and their accounts, the newest first. */
  readonly records: readonly string[];
  readonly accounts: readonly string[];
  /** When the first and the last of them parked. */
  readonly first: Date;
  readonly last: Date;
}

/** Groups parked events. The most frequent cause comes first. */
export function causesOf(events: readonly StoredEvent[]): readonly Cause[] {
  const causes = [...Map.groupBy(events, causeOf)].map(([key, of]): Cause => {
    const times = of.map((event) => parkedAt(event).getTime());
    return {
      key,
      event: of[0]!,
      count: of.length,
      ...touchedBy(of),
      first: new Date(Math.min(...times)),
      last: new Date(Math.max(...times)),
    };
  });
  return causes.sort((one, other) => other.count - one.count);
}

/** The records and the accounts of events. */
export function touchedBy(events: readonly StoredEvent[]): Pick<Cause, "records" | "accounts"> {
  const distinct = <T>(values: readonly (T | null | undefined)[]) => [
    ...new Set(values.filter((value) => value !== null && value !== undefined)),
  ];
  return { records: distinct(events.map(({ ref }) => ref)), accounts: distinct(events.map(accountOf)) };
}

/** Says how many records and accounts events touch: `40 bookings in accounts a17, b7`. */
export function placesOf({ records, accounts }: Pick<Cause, "records" | "accounts">): string {
  const listings = records.filter((ref) => splitKey(ref).rest.startsWith("listing:")).length;
  const counts = [
    [records.length - listings, "booking"],
    [listings, "listing"],
  ] as const;
  const said = counts.filter(([count]) => count > 0).map(([count, noun]) => countOf(count, noun));
  const touched = said.length === 0 ? "no record" : said.join(" and ");
  return accounts.length === 0 ? touched : `${touched} in ${accountsOf(accounts)}`;
}

const accountsOf = (accounts: readonly string[]): string =>
  accounts.length <= 3
    ? `account${accounts.length === 1 ? "" : "s"} ${accounts.toSorted().join(", ")}`
    : countOf(accounts.length, "account");
