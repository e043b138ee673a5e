import knex from "knex";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { mysqlStore } from "stayhook/mysql";

interface Row {
  code: string;
  listing: number;
  check_in: string;
  check_out: string;
}

// Without a connection, knex opens no pool.
const stays = () => knex({ client: "mysql2" })<Row>("stays");

export const webhooks = createWebhookHandler({
  client: new StayhookClient(),
  store: mysqlStore({ url: process.env.DATABASE_URL }),
  verify: sharedSecret({ query: "key", secret: process.env.WEBHOOK_SECRET }),
  on: {
    booking: (event) => {
      const { to } = event.stayChange;
      event.atomically(async (tx) => {
        await stays().where({ code: event.booking.bookingCode }).delete().connection(tx.connection);
        if (to) {
          const { bookingCode: code, listingId: listing, checkIn: check_in, checkOut: check_out } = to;
          await stays().insert({ code, listing, check_in, check_out }).connection(tx.connection);
        }
      });
    },
  },
});
