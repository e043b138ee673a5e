import {
  type Compilable,
  DummyDriver,
  Kysely,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from "kysely";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";
import { runOn } from "./run-on.ts";

interface Database {
  stays: { code: string; listing: number; check_in: string; check_out: string };
}

// Kysely writes the SQL, and does not run it.
const db = new Kysely<Database>({
  dialect: {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  },
});

export const webhooks = createWebhookHandler({
  client: new StayhookClient(),
  store: sqliteStore(process.env.EVENTS_DB ?? "events.db"),
  verify: sharedSecret({ query: "key", secret: process.env.WEBHOOK_SECRET }),
  on: {
    booking: (event) => {
      const { to } = event.stayChange;
      event.atomically((tx) => {
        const run = (query: Compilable) => {
          const { sql, parameters } = query.compile();
          runOn(tx, sql, parameters);
        };
        run(db.deleteFrom("stays").where("code", "=", event.booking.bookingCode));
        if (to) {
          const { bookingCode: code, listingId: listing, checkIn: check_in, checkOut: check_out } = to;
          run(db.insertInto("stays").values({ code, listing, check_in, check_out }));
        }
      });
    },
  },
});
