import { Kysely, PostgresDialect } from "kysely";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { postgresStore } from "stayhook/postgres";

interface Database {
  stays: { code: string; listing: number; check_in: string; check_out: string };
}

export const webhooks = createWebhookHandler({
  client: new StayhookClient(),
  store: postgresStore({ connectionString: process.env.DATABASE_URL }),
  verify: sharedSecret({ query: "key", secret: process.env.WEBHOOK_SECRET }),
  on: {
    booking: (event) => {
      const { to } = event.stayChange;
      event.atomically(async (tx) => {
        const pool = { options: {}, connect: async () => tx, end: async () => {} };
        const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) });
        await db.deleteFrom("stays").where("code", "=", event.booking.bookingCode).execute();
        if (to) {
          const { bookingCode: code, listingId: listing, checkIn: check_in, checkOut: check_out } = to;
          await db.insertInto("stays").values({ code, listing, check_in, check_out }).execute();
        }
      });
    },
  },
});
