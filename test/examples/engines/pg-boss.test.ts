import { randomUUID } from "node:crypto";
import { PgBoss } from "pg-boss";
import { describe, onTestFinished, test } from "vitest";
import { postgresUrl } from "../../support/postgres-server.ts";
import { proveEngine } from "./proof.ts";

const url = await postgresUrl();

describe.skipIf(url === undefined && !process.env.CI)("pg-boss.ts", () => {
  test("handles each event once, one at a time of a record, and keeps what failed", {
    timeout: 120_000,
  }, async () => {
    const BOSS_SCHEMA = `boss_test_${randomUUID().replaceAll("-", "")}`;
    const boss = new PgBoss({ connectionString: url as string, schema: BOSS_SCHEMA, supervise: false });
    boss.on("error", () => {});
    await boss.start();
    onTestFinished(async () => {
      await boss.getDb().executeSql(`DROP SCHEMA ${BOSS_SCHEMA} CASCADE`);
      await boss.stop({ graceful: false });
    });
    await proveEngine({
      file: "examples/engines/pg-boss.ts",
      env: { DATABASE_URL: url, BOSS_SCHEMA },
      async sendJunk(id) {
        await boss.send("notifications", { eventId: `no notification, ${id}` });
      },
      async deadLetters() {
        const dead = await boss.findJobs("notifications-dead");
        return dead.map((job) => JSON.stringify(job.data));
      },
    });
  });
});
