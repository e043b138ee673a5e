import { type Listing, listingStatuses } from "../../models/records.ts";
import { type Command, ofBooking } from "../command.ts";
import type { Column } from "../output.ts";

const columns: readonly Column<Listing>[] = [
  ["LISTING", ({ listingId }) => listingId],
  ["STATUS", ({ status }) => status],
  ["NAME", ({ listingName }) => listingName],
];

export const listings: Command = {
  examples: ["stayhook listings", "stayhook listings --status Published --json"],
  asksPlatform: true,
  options: {
    status: { value: "<status>", choices: listingStatuses, help: "only listings with this status" },
  },
  run: async ({ client, io, out, text }) => {
    const status = text("status");
    const all = await (await client()).listings.list({ signal: io.signal });
    const shown = status === undefined ? all : all.filter((listing) => listing.status === status);
    out.result(shown, () => out.table(shown, columns));
  },
};

export const booking: Command = {
  takes: "<code>",
  arguments: [1, 1],
  examples: ["stayhook booking HX3K9"],
  asksPlatform: true,
  run: async ({ client, io, out, positionals: [code = ""] }) => {
    const { bookings } = await client();
    const found = await ofBooking(code, bookings.get(code, { signal: io.signal }));
    out.result(found, () => out.fields(Object.entries(found)));
  },
};
