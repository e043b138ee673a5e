import { PrismaPg } from "@prisma/adapter-pg";
import pg from "pg";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { postgresStore } from "stayhook/postgres";
import { PrismaClient } from "./generated/client.ts";

/** Makes a client that sends its queries to `tx`, and refuses to begin a transaction of its own. */
export function prismaOn(tx: pg.PoolClient) {
  const connect = () =>
    Promise.reject(new Error("Use no $transaction and no nested write in event.atomically."));
  const pool = Object.assign(new pg.Pool(), { query: tx.query.bind(tx), connect });
  return new PrismaClient({ adapter: new PrismaPg(pool) });
}

export const webhooks = createWebhookHandler({
  client: new StayhookClient(),
  store: postgresStore({ connectionString: process.env.DATABASE_URL }),
  verify: sharedSecret({ query: "key", secret: process.env.WEBHOOK_SECRET }),
  on: {
    booking: (event) => {
      const { to } = event.stayChange;
      event.atomically(async (tx) => {
        const prisma = prismaOn(tx);
        await prisma.stay.deleteMany({ where: { code: event.booking.bookingCode } });
        if (to) {
          const { bookingCode: code, listingId: listing, checkIn, checkOut } = to;
          await prisma.stay.create({ data: { code, listing, checkIn, checkOut } });
        }
      });
    },
  },
});
