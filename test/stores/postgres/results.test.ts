// A role whose rights change while the app runs: results that the store cannot record.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { done, eventOf, queueOf, SECOND } from "../../queue/support.ts";
import { eventually } from "../../support/eventually.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

describePostgres("a role that loses a right", () => {
  const schemas = createSchemas();

  async function appOf(work: Parameters<typeof queueOf>[0] = {}) {
    const schema = schemas.name();
    const role = `${schema}_role`;
    await schemas.store({ schema }).migrate();
    await schemas.pool.query(`
      CREATE ROLE ${role} LOGIN;
      GRANT USAGE ON SCHEMA ${schema} TO ${role};
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${role};
      GRANT USAGE ON ALL SEQUENCES IN SCHEMA ${schema} TO ${role};`);
    const asRole = new URL(url);
    asRole.username = role;
    const store = schemas.store({ schema, connectionString: asRole.href }) as never;
    const app = queueOf({ store, leaseDuration: 2 * SECOND, backoff: () => 100, ...work });
    onTestFinished(async () => {
      await app.queue.close(0);
      await app.store.close();
      await schemas.pool.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
    });
    const pool = schemas.pool;
    const tables = `${schema}.events`;
    const endSessions = () =>
      pool.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", [role]);
    return {
      ...app,
      set: async (on: "on" | "off") => {
        await pool.query(`ALTER ROLE ${role} SET default_transaction_read_only = ${on}`);
        await endSessions();
      },
      revoke: () => pool.query(`REVOKE INSERT ON ${tables} FROM ${role}`),
      grant: () => pool.query(`GRANT INSERT ON ${tables} TO ${role}`),
    };
  }

  test("a read-only role: one callback for each event, also after the leases have ended", async () => {
    let isSet: Promise<void> | undefined;
    const app = await appOf({
      work: async () => {
        isSet ??= app.set("on");
        await isSet;
        return done;
      },
    });
    await app.add("a", "b", "c");
    app.queue.start();
    await sleep(9 * SECOND);
    expect(app.ran.length).toBe(new Set(app.ran).size);
    expect(String(app.queue.failure)).toMatch(/result of an attempt could not be recorded.*read-only/);
    await app.set("off");
    await eventually(async () => expect(await app.store.counts()).toMatchObject({ done: 3 }));
    expect(app.ran.sort()).toEqual(["a", "b", "c"]);
    await eventually(() => expect(app.queue.failure).toBeUndefined());
  });

  test("INSERT revoked: an unchanged record is done without its second look, and a timer waits for the right", async () => {
    const look = { ...eventOf("look", "booking:plain"), source: "recheck" as const };
    const timer = { ...eventOf("timer", "booking:timed"), source: "timer" as const };
    const app = await appOf({
      work: ({ eventId }) =>
        eventId === "plain"
          ? { ...done, extra: [{ event: look, dueIn: 60 * SECOND }] }
          : { ...done, events: [{ event: timer, dueIn: 60 * SECOND }] },
    });
    await app.add("plain");
    await app.revoke();
    app.queue.start();
    await eventually(async () => expect(await app.stateOf("plain")).toBe("done"));
    await app.grant();
    await app.add("timed");
    await app.revoke();
    app.queue.wake(eventOf("any"));
    await sleep(6 * SECOND);
    expect(app.ran.filter((id) => id === "timed").length).toBeLessThanOrEqual(1);
    await app.grant();
    await eventually(async () => expect(await app.stateOf("timed")).toBe("done"));
    expect(await app.stateOf("timer")).toBe("scheduled");
    expect(app.ran).toEqual(["plain", "timed"]);
  });
});
