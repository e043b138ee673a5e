import { NotFoundError } from "../../client/client-errors.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { ThingStatus } from "../../stays/things.ts";
import { bookingRef } from "../../webhooks/refs.ts";
import { thingsOf } from "../../webhooks/things-of.ts";
import { type Command, type Invocation, MissingError, ofBooking } from "../command.ts";
import { storeOptions, withStore } from "../open-store.ts";
import { ago, type Column } from "../output.ts";
import { refIn } from "../refs-in-accounts.ts";

const columns: readonly Column<Listing>[] = [
  ["LISTING", ({ listingId }) => listingId],
  ["STATUS", ({ status }) => status],
  ["NAME", ({ listingName }) => listingName],
];

export const listings: Command = {
  examples: ["stayhook listings", "stayhook listings --status Published --json"],
  asksPlatform: true,
  options: {
    status: { value: "<status>", help: "only listings with this status" },
  },
  run: async ({ client, io, out, text }) => {
    const status = text("status");
    const all = await (await client()).listings.list({ signal: io.signal });
    const shown = status === undefined ? all : all.filter((listing) => listing.status === status);
    out.result(shown, () => out.table(shown, columns));
  },
};

/** Without its value, which may be a door code. */
type Shown = Omit<ThingStatus, "value">;

const ofThings: readonly Column<Shown>[] = [
  ["THING", ({ name }) => name],
  ["LISTING", ({ listingId }) => listingId],
  ["CHECK-IN", ({ stay }) => stay.checkIn],
  ["CHECK-OUT", ({ stay }) => stay.checkOut],
  ["STATE", ({ state }) => state],
  ["AT", ({ at }) => at.toISOString(), { text: ({ at }) => ago(at) }],
  ["ERROR", ({ error }) => error],
];

export const booking: Command = {
  takes: "<code>",
  arguments: [1, 1],
  description:
    "With --store, also lists what exists for the stay and what is to come, as your handler's option `stays` declares it.",
  examples: ["stayhook booking HX3K9", "stayhook booking HX3K9 --store events.db"],
  asksPlatform: true,
  options: storeOptions,
  run: async (invocation) => {
    const { client, io, out, text, positionals } = invocation;
    const code = positionals[0] ?? "";
    if (text("store") === undefined) {
      const { bookings } = await client();
      const found = await ofBooking(code, bookings.get(code, { signal: io.signal }));
      out.result(found, () => out.fields(Object.entries(found)));
      return undefined;
    }
    const things = await withStore(invocation, async (store) =>
      (await thingsOf(store, await refIn(store, bookingRef(code)))).map(({ value: _, ...shown }) => shown),
    );
    const { found, error } = await foundWith(things, code, invocation);
    const head =
      found === undefined
        ? `The platform has no booking ${code} any more.`
        : out.fields(Object.entries(found));
    const table = things.length > 0 ? out.table(things, ofThings) : "No things of this booking are stored.";
    out.result({ ...found, things }, () => (error === undefined ? `${head}\n\n${table}` : table));
    if (error !== undefined) throw error;
    return undefined;
  },
};

/** A booking that is gone may have things that are on, and so may one that the platform does not tell now. */
async function foundWith(
  things: readonly Shown[],
  code: string,
  { client, io }: Invocation,
): Promise<{ readonly found?: Booking; readonly error?: unknown }> {
  try {
    return { found: await (await client()).bookings.get(code, { signal: io.signal }) };
  } catch (error) {
    const isGone = error instanceof NotFoundError;
    if (things.length > 0) return isGone ? {} : { error };
    throw isGone ? new MissingError(`There is no booking ${code}.`) : error;
  }
}
