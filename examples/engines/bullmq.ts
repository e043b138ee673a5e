// Processing on BullMQ. Notifications become jobs, answered 200 when Redis has them; BullMQ retries them, keeps what
// failed, and shows both in its dashboards. To run it, as often as you like:
//   npm install stayhook bullmq ioredis
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node examples/engines/bullmq.ts
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { DelayedError, type Job, Queue, UnrecoverableError, Worker } from "bullmq";
import { Redis } from "ioredis";
import {
  createWebhookHandler,
  forwardTo,
  type NewEvent,
  ProcessingError,
  StayhookClient,
  sharedSecret,
  stay,
} from "stayhook";
import { toNodeHandler } from "stayhook/node";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET, PORT = "3000" } = process.env;
const { REDIS_URL: url = "redis://127.0.0.1:6379", QUEUE = "stayhook", MAX_ATTEMPTS = "12" } = process.env;
const { RETRY_SECONDS = "5" } = process.env; // before the second attempt; longer each time

const DAY = 24 * 60 * 60; // seconds
// BullMQ's groups cost money. What is free is a queue that runs one job at a time on all machines together, so that
// there are some of them, and each booking and listing has its own: as many callbacks can run at once, in all.
const LANES = 16;

const connection = new Redis(url, { maxRetriesPerRequest: 1 }); // fails, and so answers 503, rather than waits
connection.on("error", (error) => console.error(error.message));
const queues = Array.from({ length: LANES }, (_, lane) => new Queue(`${QUEUE}-${lane}`, { connection }));
await Promise.all(queues.map((queue) => queue.setGlobalConcurrency(1)));

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store: forwardTo((event) =>
    queueOf(event).add("notification", event, {
      jobId: event.eventId, // known for as long as the job is kept, so:
      removeOnComplete: { age: 7 * DAY },
      removeOnFail: { age: 30 * DAY }, // these are the dead letters
      attempts: Number(MAX_ATTEMPTS),
      backoff: { type: "exponential", delay: Number(RETRY_SECONDS) * 1000, jitter: 0.25 },
    }),
  ),
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  maxAttempts: Number(MAX_ATTEMPTS),
  on: {
    "booking.Confirmed": ({ booking, eventId }) =>
      console.log(`${eventId}: block ${booking.bookingCode}`, stay(booking)),
    "listing.Published": ({ listing, eventId }) => console.log(`${eventId}: ${listing.listingId} is live`),
    fallback: ({ type, eventId }) => console.log(`${eventId}: nothing to do for ${type}`),
  },
});

/** Always the same one for the same booking or listing. */
function queueOf({ ref, eventId }: NewEvent) {
  const hash = createHash("sha256").update(ref ?? eventId);
  return queues[hash.digest().readUInt32BE() % LANES] as Queue;
}

// With three parameters: BullMQ makes a signal only for who takes it.
async function work(job: Job, token: string | undefined, signal: AbortSignal | undefined) {
  // A worker that died is an attempt, too: the job may be what kills it.
  const attempt = job.attemptsMade + job.stalledCounter + 1;
  try {
    await webhooks.process(job.data, { attempt, signal });
  } catch (error) {
    if (!(error instanceof ProcessingError)) throw error;
    const waited = (Date.now() - job.timestamp) / 1000;
    if (!error.retryable || waited > 3 * DAY) throw new UnrecoverableError(error.message);
    if (error.reason !== "unavailable") throw error; // tried again as `attempts` and `backoff` say
    // The platform is out of reach: no attempt, and when it says how long, so long.
    await job.moveToDelayed(Date.now() + (error.retryAfter ?? 30) * 1000, token);
    throw new DelayedError();
  }
}

const workers = queues.map(({ name }) => {
  const worker = new Worker(name, work, { connection: { url }, maxStalledCount: Number(MAX_ATTEMPTS) });
  worker.on("error", (error) => console.error(error.message));
  worker.on("failed", (_, error) => console.error(error.message));
  // Another worker may have the job by now.
  worker.on("lockRenewalFailed", (ids) => ids.map((id) => worker.cancelJob(id, "its lock is lost")));
  return worker;
});

const server = createServer(toNodeHandler(webhooks));
server.listen(Number(PORT), "127.0.0.1", () =>
  console.log(`listening on port ${(server.address() as AddressInfo).port}`),
);

process.once("SIGTERM", async () => {
  server.close();
  await webhooks.close();
  const cut = setTimeout(() => workers.map((worker) => worker.cancelAllJobs("closing")), 10_000);
  await Promise.all(workers.map((worker) => worker.close())); // waits for what runs
  clearTimeout(cut);
  await Promise.all(queues.map((queue) => queue.close()));
  connection.disconnect();
});
