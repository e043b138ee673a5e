import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgTable, varchar } from "drizzle-orm/pg-core";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { postgresStore } from "stayhook/postgres";

const stays = pgTable("stays", {
  code: varchar({ length: 40 }).primaryKey(),
  listing: integer().notNull(),
  checkIn: varchar("check_in", { length: 10 }).notNull(),
  checkOut: varchar("check_out", { length: 10 }).notNull(),
});

export const webhooks = createWebhookHandler({
  client: new StayhookClient(),
  store: postgresStore({ connectionString: process.env.DATABASE_URL }),
  verify: sharedSecret({ query: "key", secret: process.env.WEBHOOK_SECRET }),
  on: {
    booking: (event) => {
      const { to } = event.stayChange;
      event.atomically(async (tx) => {
        const db = drizzle({ client: tx });
        await db.delete(stays).where(eq(stays.code, event.booking.bookingCode));
        if (to) {
          const { bookingCode: code, listingId: listing, checkIn, checkOut } = to;
          await db.insert(stays).values({ code, listing, checkIn, checkOut });
        }
      });
    },
  },
});
