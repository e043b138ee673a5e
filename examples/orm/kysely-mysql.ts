import {
  type Compilable,
  DummyDriver,
  Kysely,
  MysqlAdapter,
  MysqlIntrospector,
  MysqlQueryCompiler,
} from "kysely";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { mysqlStore } from "stayhook/mysql";

interface Database {
  stays: { code: string; listing: number; check_in: string; check_out: string };
}

// Kysely writes the SQL, and does not run it.
const db = new Kysely<Database>({
  dialect: {
    createAdapter: () => new MysqlAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new MysqlIntrospector(db),
    createQueryCompiler: () => new MysqlQueryCompiler(),
  },
});

export const webhooks = createWebhookHandler({
  client: new StayhookClient(),
  store: mysqlStore({ url: process.env.DATABASE_URL }),
  verify: sharedSecret({ query: "key", secret: process.env.WEBHOOK_SECRET }),
  on: {
    booking: (event) => {
      const { to } = event.stayChange;
      event.atomically(async (tx) => {
        const run = (query: Compilable) => {
          const { sql, parameters } = query.compile();
          return tx.query(sql, [...parameters]);
        };
        await run(db.deleteFrom("stays").where("code", "=", event.booking.bookingCode));
        if (to) {
          const { bookingCode: code, listingId: listing, checkIn: check_in, checkOut: check_out } = to;
          await run(db.insertInto("stays").values({ code, listing, check_in, check_out }));
        }
      });
    },
  },
});
