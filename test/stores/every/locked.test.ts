// A session of somebody else locks the row of an event while its callback runs.

import mysql from "mysql2/promise";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { done, eventOf, queueOf, SECOND, sleep } from "../../queue/support.ts";
import { eventually } from "../../support/eventually.ts";
import { describeEvery, type Place } from "./stores.ts";

/** Returns a function that runs statements in one session. */
async function sessionOf({
  place: { name, url, schema },
}: Place): Promise<(sql: string) => Promise<unknown>> {
  if (name === "MySQL") {
    const connection = await mysql.createConnection({ uri: url });
    onTestFinished(() => connection.destroy());
    return (sql) => connection.query(sql.replace("events", "stayhook_events"));
  }
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  return (sql) => client.query(sql.replace("events", `"${schema}".events`));
}

describeEvery(
  ({ name }) => name === "PostgreSQL" || name === "MySQL",
  (kind) => {
    test("only the locked event waits, and its callback runs once", async () => {
      const place = await kind.create();
      const store = place.open();
      const run = await sessionOf(place);
      let locked: Promise<unknown> | undefined;
      const app = queueOf({
        store: store as never,
        leaseDuration: 8 * SECOND,
        work: async ({ eventId }) => {
          if (eventId === "a") {
            locked ??= run("BEGIN").then(() => run("UPDATE events SET topic = '1' WHERE seq = 1"));
            await locked;
          }
          return done;
        },
      });
      onTestFinished(async () => {
        await app.queue.close(0);
        await store.close();
      });
      await app.add("a");
      app.queue.start();
      await eventually(() => expect(app.ran).toEqual(["a"]));
      // By then, the store has failed to record the result.
      await sleep(7 * SECOND);
      await app.add("b", "c");
      app.queue.wake(eventOf("b"));
      // The result of another event may share a transaction with that of the locked one, which waits for some seconds, twice.
      await eventually(async () => expect(await app.stateOf("c")).toBe("done"));
      expect(await app.stateOf("a")).toBe("processing");
      await run("ROLLBACK");
      await eventually(async () => expect(await app.stateOf("a")).toBe("done"));
      expect(app.ran.toSorted()).toEqual(["a", "b", "c"]);
    });
  },
);
