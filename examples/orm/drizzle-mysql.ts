import { eq } from "drizzle-orm";
import { int, mysqlTable, varchar } from "drizzle-orm/mysql-core";
import { drizzle } from "drizzle-orm/mysql2";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { mysqlStore } from "stayhook/mysql";

const stays = mysqlTable("stays", {
  code: varchar({ length: 40 }).primaryKey(),
  listing: int().notNull(),
  checkIn: varchar("check_in", { length: 10 }).notNull(),
  checkOut: varchar("check_out", { length: 10 }).notNull(),
});

export const webhooks = createWebhookHandler({
  client: new StayhookClient(),
  store: mysqlStore({ url: process.env.DATABASE_URL }),
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
