import { randomUUID } from "node:crypto";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { describe, onTestFinished, test } from "vitest";
import { deleteKeys, redisUrl } from "../../support/redis-server.ts";
import { proveEngine } from "./proof.ts";

const url = await redisUrl();

describe.skipIf(url === undefined && !process.env.CI)("bullmq.ts", () => {
  test("handles each event once, one at a time of a record, and keeps what failed", {
    timeout: 120_000,
  }, async () => {
    const QUEUE = `stayhook-test-${randomUUID()}`;
    const connection = new Redis(url as string, { maxRetriesPerRequest: null });
    const queues = Array.from({ length: 16 }, (_, lane) => new Queue(`${QUEUE}-${lane}`, { connection }));
    onTestFinished(async () => {
      await Promise.all(queues.map((queue) => queue.close()));
      connection.disconnect();
      await deleteKeys(url as string, `bull:${QUEUE}`);
    });
    await proveEngine({
      file: "examples/engines/bullmq.ts",
      env: { REDIS_URL: url, QUEUE },
      async sendJunk(id) {
        await queues[3]?.add("notification", { eventId: `no notification, ${id}` }, { attempts: 12 });
      },
      async deadLetters() {
        const failed = await Promise.all(queues.map((queue) => queue.getFailed()));
        return failed.flat().map((job) => JSON.stringify(job.data));
      },
    });
  });
});
