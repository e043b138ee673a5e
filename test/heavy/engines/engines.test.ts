import { randomUUID } from "node:crypto";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, headers } from "@nats-io/transport-node";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { PgBoss } from "pg-boss";
import { describe, test } from "vitest";
import { postgresUrl } from "../../support/postgres-server.ts";
import { deleteKeys, redisUrl } from "../../support/redis-server.ts";
import { natsUrl } from "./nats-server.ts";
import { proveEngine } from "./proof.ts";

const redis = await redisUrl();
const postgres = await postgresUrl();
const nats = await natsUrl();

// Run the engines concurrently, because they wait most of the time.
describe.concurrent("handles each event once, one at a time of a record, and keeps what failed", () => {
  test.skipIf(redis === undefined)("on BullMQ", async (context) => {
    const QUEUE = `stayhook-test-${randomUUID()}`;
    const connection = new Redis(redis as string, { maxRetriesPerRequest: null });
    const queues = Array.from({ length: 16 }, (_, lane) => new Queue(`${QUEUE}-${lane}`, { connection }));
    context.onTestFinished(async () => {
      await Promise.all(queues.map((queue) => queue.close()));
      connection.disconnect();
      await deleteKeys(redis as string, `bull:${QUEUE}`);
    });
    const engine = {
      file: "examples/engines/bullmq.ts",
      server: redis as string,
      env: (server: string) => ({ REDIS_URL: server, QUEUE }),
      async sendJunk(id: string) {
        await queues[3]?.add(
          "notification",
          { eventId: `no notification, ${id}` },
          { attempts: 12, backoff: 60_000 },
        );
      },
      async deadLetters() {
        const failed = await Promise.all(queues.map((queue) => queue.getFailed()));
        return failed.flat().map((job) => JSON.stringify(job.data));
      },
    };
    await proveEngine(engine, context);
  });

  test.skipIf(postgres === undefined)("on pg-boss", async (context) => {
    const BOSS_SCHEMA = `boss_test_${randomUUID().replaceAll("-", "")}`;
    const boss = new PgBoss({ connectionString: postgres as string, schema: BOSS_SCHEMA, supervise: false });
    boss.on("error", () => {});
    await boss.start();
    context.onTestFinished(async () => {
      await boss.getDb().executeSql(`DROP SCHEMA ${BOSS_SCHEMA} CASCADE`);
      await boss.stop({ graceful: false });
    });
    const engine = {
      file: "examples/engines/pg-boss.ts",
      server: postgres as string,
      env: (server: string) => ({ DATABASE_URL: server, BOSS_SCHEMA }),
      async sendJunk(id: string) {
        await boss.send("notifications", { eventId: `no notification, ${id}` });
      },
      async deadLetters() {
        const dead = await boss.findJobs("notifications-dead");
        return dead.map((job) => JSON.stringify(job.data));
      },
    };
    await proveEngine(engine, context);
  });

  test.skipIf(nats === undefined)("on NATS JetStream", async (context) => {
    const STREAM = `stayhook-test-${randomUUID()}`;
    const connection = await connect({ servers: nats as string });
    const manager = await jetstreamManager(connection);
    context.onTestFinished(async () => {
      for (const name of [STREAM, `${STREAM}-dead`]) await manager.streams.delete(name).catch(() => {});
      await connection.close();
    });
    const engine = {
      file: "examples/engines/nats-jetstream.ts",
      server: nats as string,
      env: (server: string) => ({ NATS_URL: server, STREAM }),
      async sendJunk(id: string) {
        await jetstream(connection).publish(`${STREAM}.lane.3`, `{"eventId":"no notification, ${id}"}`);
      },
      async sendDeadly(eventId: string) {
        const sent = headers();
        sent.set("attempt", "3");
        const notification = { eventId, timestamp: new Date().toISOString() };
        await jetstream(connection).publish(`${STREAM}.lane.4`, JSON.stringify(notification), {
          headers: sent,
        });
      },
      async deadLetters() {
        const { state } = await manager.streams.info(`${STREAM}-dead`);
        const found = Array.from({ length: state.messages }, (_, i) =>
          manager.streams.getMessage(`${STREAM}-dead`, { seq: i + 1 }),
        );
        return (await Promise.all(found)).map((message) => message?.string() ?? "");
      },
    };
    await proveEngine(engine, context);
  });
});
