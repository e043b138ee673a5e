import { readFileSync } from "node:fs";
import { join } from "node:path";
import { eventTypes } from "../src/models/event-types.ts";
import { bookingStatuses, listingStatuses } from "../src/models/records.ts";
import { bookingTable, GONE, listingTable } from "../src/models/statuses.ts";
import { openapi } from "./openapi.ts";

/**
 * Returns the places that people write by hand, or that a command writes, and that do not say what the table of
 * statuses says.
 */
export function missingPlaces(): string[] {
  const readme = textOf("README.md");
  const api = textOf("api/index.api.md");
  const tuple = (statuses: readonly string[]) =>
    `readonly [${statuses.map((each) => `"${each}"`).join(", ")}]`;
  const { Booking, Listing } = openapi().components.schemas;
  const places: Record<string, boolean> = {
    "docs/events.md": withStatuses(textOf("docs/events.md")) === textOf("docs/events.md"),
    "docs/events.md, fields": [bookingStatuses, listingStatuses].every((statuses) =>
      textOf("docs/events.md").includes(`\nStatuses: ${codes(statuses)}.\n`),
    ),
    // README may leave the list to docs/events.md.
    "README.md":
      !readme.includes("`booking.Initiated`") || eventTypes.every((type) => readme.includes(`\`${type}\``)),
    "api/index.api.md":
      api.includes(`bookingStatuses: ${tuple(bookingStatuses)};`) &&
      api.includes(`listingStatuses: ${tuple(listingStatuses)};`),
    WebhookEventMap: eventTypes.every((type) =>
      RegExp(`^    "?${type.replace(".", "\\.")}"?: `, "m").test(api),
    ),
    "api/testing.api.md": [...bookingTable, ...listingTable].every(
      (status) => !("move" in status) || textOf("api/testing.api.md").includes(`    ${status.move.verb}(`),
    ),
    openapi: [
      [Booking, bookingStatuses],
      [Listing, listingStatuses],
    ].every(([schema, statuses]) => JSON.stringify(schema).includes(JSON.stringify(statuses))),
  };
  return Object.keys(places).filter((place) => !places[place]);
}

const textOf = (file: string): string => readFileSync(join(import.meta.dirname, "..", file), "utf8");

const codes = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(", ");

/** Returns the text of docs/events.md with a row for each status. A row that is there keeps its last column. */
export function withStatuses(page: string): string {
  const rows = page.matchAll(/^\| `((?:booking|listing)\.\w+)` \| .* \| (.*) \|$/gm);
  const fields = new Map([...rows].map(([, type, last]) => [type, last]));
  const row = (kind: string, name: string, when: string) =>
    `| \`${kind}.${name}\` | ${when} | ${fields.get(`${kind}.${name}`) ?? `\`${kind}\``} |\n`;
  const table = Object.entries({ booking: bookingTable, listing: listingTable }).flatMap(
    ([kind, statuses]) => [
      ...statuses.map(({ name, when }) => row(kind, name, when)),
      row(
        kind,
        GONE,
        `you knew the ${kind}, and the platform no longer returns it: [Deleted records](recovering.md#deleted-records)`,
      ),
      row(kind, "unknown", `the ${kind} has a status that this package does not know`),
    ],
  );
  return page.replace(/(?:^\| `(?:booking|listing)\.\w+` \|.*\n)+/m, () => table.join(""));
}
