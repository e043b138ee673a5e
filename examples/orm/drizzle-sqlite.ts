import { eq } from "drizzle-orm";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { drizzle } from "drizzle-orm/sqlite-proxy";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";
import { runOn } from "./run-on.ts";

const stays = sqliteTable("stays", {
  code: text().primaryKey(),
  listing: integer().notNull(),
  checkIn: text("check_in").notNull(),
  checkOut: text("check_out").notNull(),
});

// drizzle writes the SQL, and does not run it.
const db = drizzle(() => Promise.reject(new Error("Call toSQL() instead.")));

export const webhooks = createWebhookHandler({
  client: new StayhookClient(),
  store: sqliteStore(process.env.EVENTS_DB ?? "events.db"),
  verify: sharedSecret({ query: "key", secret: process.env.WEBHOOK_SECRET }),
  on: {
    booking: (event) => {
      const { to } = event.stayChange;
      event.atomically((tx) => {
        const { sql, params } = db.delete(stays).where(eq(stays.code, event.booking.bookingCode)).toSQL();
        runOn(tx, sql, params);
        if (to) {
          const { bookingCode: code, listingId: listing, checkIn, checkOut } = to;
          const { sql, params } = db.insert(stays).values({ code, listing, checkIn, checkOut }).toSQL();
          runOn(tx, sql, params);
        }
      });
    },
  },
});
