// Processes notifications on BullMQ. A notification becomes a job, and is answered 200 when Redis has it. BullMQ
// retries jobs, keeps failed ones, and shows both in its dashboards. You can start several of these processes:
//   npm install stayhook bullmq ioredis
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node examples/engines/bullmq.ts
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { DelayedError, type Job, Queue, UnrecoverableError, Worker } from "bullmq";
import { Redis } from "ioredis";
import { createWebhookHandler, forwardTo, ProcessingError, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import type { NewEvent } from "stayhook/store";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { HOST = "127.0.0.1", PORT = "3000" } = process.env;
const { REDIS_URL: url = "redis://127.0.0.1:6379", QUEUE = "stayhook", MAX_ATTEMPTS = "12" } = process.env;
const { RETRY_SECONDS = "5" } = process.env; // before the second attempt; later waits are longer

const DAY = 24 * 60 * 60; // seconds
// BullMQ's groups are a paid feature, so this example uses several queues. A booking or listing always uses the same
// queue. Each queue runs one job at a time across all machines, so LANES is also the limit of concurrent callbacks.
const LANES = 16;

const connection = new Redis(url, { maxRetriesPerRequest: 1 }); // fail at once, so that the answer is 503
connection.on("error", (error) => console.error(error.message));
const queues = Array.from({ length: LANES }, (_, lane) => new Queue(`${QUEUE}-${lane}`, { connection }));
await Promise.all(queues.map((queue) => queue.setGlobalConcurrency(1)));

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store: forwardTo((event) =>
    queueOf(event).add("notification", event, {
      jobId: event.eventId, // BullMQ ignores this id while the job is kept
      removeOnComplete: { age: 7 * DAY },
      removeOnFail: { age: 30 * DAY }, // failed jobs are the dead letters
      attempts: Number(MAX_ATTEMPTS),
      backoff: { type: "exponential", delay: Number(RETRY_SECONDS) * 1000, jitter: 0.25 },
    }),
  ),
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  maxAttempts: Number(MAX_ATTEMPTS),
  on: {
    "booking.Confirmed": ({ booking, eventId, stayChange }) =>
      console.log(`${eventId}: block ${booking.bookingCode}`, stayChange.to),
    "booking.Cancelled": ({ booking, eventId }) => console.log(`${eventId}: release ${booking.bookingCode}`),
    "booking.Declined": ({ booking, eventId }) => console.log(`${eventId}: release ${booking.bookingCode}`),
    "booking.gone": ({ booking, eventId }) => console.log(`${eventId}: release ${booking.bookingCode}`),
    "listing.Published": ({ listing, eventId }) => console.log(`${eventId}: ${listing.listingId} is live`),
    fallback: ({ type, eventId }) => console.log(`${eventId}: nothing to do for ${type}`),
  },
});

/** Returns the same queue each time for a booking or listing. */
function queueOf({ ref, eventId }: NewEvent) {
  const hash = createHash("sha256").update(ref ?? eventId);
  return queues[hash.digest().readUInt32BE() % LANES] as Queue;
}

// Keep the third parameter: BullMQ makes a signal only for a function with three.
async function work(job: Job, token: string | undefined, signal: AbortSignal | undefined) {
  // A stalled job counts as an attempt, because the job itself may crash its workers.
  const attempt = job.attemptsMade + job.stalledCounter + 1;
  try {
    await webhooks.process(job.data, { attempt, signal });
  } catch (error) {
    if (!(error instanceof ProcessingError)) throw error;
    const waited = (Date.now() - job.timestamp) / 1000;
    if (!error.retryable || waited > 3 * DAY) throw new UnrecoverableError(error.message);
    if (error.reason !== "unavailable") throw error; // `attempts` and `backoff` decide the retry
    // The platform is out of reach: do not count the attempt, and wait as long as the platform asks.
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
server.listen(Number(PORT), HOST, () =>
  console.log(`listening on port ${(server.address() as AddressInfo).port} of ${HOST}`),
);

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await webhooks.close();
  const cut = setTimeout(() => workers.map((worker) => worker.cancelAllJobs("closing")), 10_000);
  await Promise.all(workers.map((worker) => worker.close())); // waits for running jobs
  clearTimeout(cut);
  await Promise.all(queues.map((queue) => queue.close()));
  connection.disconnect();
}
