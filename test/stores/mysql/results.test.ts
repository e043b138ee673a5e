// A user whose rights change while the app runs: results that the store cannot record.

import { expect, onTestFinished, test } from "vitest";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { done, eventOf, queueOf, SECOND, sleep } from "../../queue/support.ts";
import { eventually } from "../../support/eventually.ts";
import { createDatabases, describeMysql } from "./support.ts";

describeMysql("a user that loses a right", () => {
  const databases = createDatabases();

  async function appOf(work: Parameters<typeof queueOf>[0]) {
    const url = new URL(await databases.create());
    const name = url.pathname.slice(1);
    const user = name.slice(-30);
    const owner = mysqlStore({ url: url.href });
    await owner.counts();
    await owner.close();
    const { pool } = databases;
    await pool.query(`CREATE USER '${user}'@'%'`);
    // Of a right on a table, open connections learn at once.
    for (const table of ["events", "records", "meta"])
      await pool.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${name}.stayhook_${table} TO '${user}'@'%'`);
    url.username = user;
    const store = mysqlStore({ url: url.href }) as never;
    const app = queueOf({ store, leaseDuration: 2 * SECOND, backoff: () => 100, ...work });
    onTestFinished(async () => {
      await app.queue.close(0);
      await app.store.close();
      await pool.query(`DROP USER '${user}'@'%'`);
    });
    const on = (right: string) => `${right} ON ${name}.stayhook_events`;
    return {
      ...app,
      revoke: (right: string) => pool.query(`REVOKE ${on(right)} FROM '${user}'@'%'`),
      grant: (right: string) => pool.query(`GRANT ${on(right)} TO '${user}'@'%'`),
    };
  }

  test("UPDATE revoked: one callback for each event, also after the leases have ended", async () => {
    let revoked: Promise<unknown> | undefined;
    const app = await appOf({
      work: async () => {
        revoked ??= app.revoke("UPDATE");
        await revoked;
        return done;
      },
    });
    await app.add("a", "b", "c");
    app.queue.start();
    await sleep(6 * SECOND);
    expect(app.ran.length).toBe(new Set(app.ran).size);
    expect(String(app.queue.failure)).toMatch(/UPDATE command denied/);
    await app.grant("UPDATE");
    await eventually(async () => expect(await app.store.counts()).toMatchObject({ done: 3 }));
    expect(app.ran.sort()).toEqual(["a", "b", "c"]);
  });

  test("INSERT revoked: an unchanged record is done without its second look", async () => {
    const look = { ...eventOf("look", "booking:plain"), source: "recheck" as const };
    const app = await appOf({ work: () => ({ ...done, extra: [{ event: look, dueIn: 60 * SECOND }] }) });
    await app.add("plain");
    await app.revoke("INSERT");
    app.queue.start();
    await eventually(async () => expect(await app.stateOf("plain")).toBe("done"));
    expect(app.ran).toEqual(["plain"]);
  });
});
