import type { Listing } from "../../models/listing.ts";
import type { Command } from "../command.ts";
import type { Column } from "../output.ts";

const columns: readonly Column<Listing>[] = [
  ["LISTING", ({ listingId }) => listingId],
  ["STATUS", ({ status }) => status],
  ["NAME", ({ listingName }) => listingName],
];

export const listings: Command = {
  name: "listings",
  summary: "list the account's listings",
  examples: ["stayhook listings", "stayhook listings --status Published --json"],
  asksPlatform: true,
  options: { status: { type: "string", value: "<status>", help: "only those with this status" } },
  run: async ({ client, io, out, text }) => {
    const status = text("status");
    const all = await client().listings.list({ signal: io.signal });
    const shown = status === undefined ? all : all.filter((listing) => listing.status === status);
    out.result(shown, () => out.table(shown, columns));
    return undefined;
  },
};
