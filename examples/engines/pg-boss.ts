// Processes notifications on pg-boss. A notification becomes a job, and is answered 200 when PostgreSQL has it. pg-boss
// retries jobs, and moves dead letters to another queue. You can start several of these processes:
//   npm install stayhook pg-boss
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… DATABASE_URL=… node examples/engines/pg-boss.ts
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type JobWithMetadata, PgBoss } from "pg-boss";
import { createWebhookHandler, forwardTo, ProcessingError, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import type { NewEvent } from "stayhook/store";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { HOST = "127.0.0.1", PORT = "3000" } = process.env;
const { DATABASE_URL = "", BOSS_SCHEMA = "pgboss", MAX_ATTEMPTS = "12" } = process.env;
const { RETRY_SECONDS = "5" } = process.env; // before the second attempt; later waits are longer

const DAY = 24 * 60 * 60; // seconds
const QUEUE = "notifications";
const DEAD_LETTERS = "notifications-dead";

const boss = new PgBoss({ connectionString: DATABASE_URL, schema: BOSS_SCHEMA, useListenNotify: true });
boss.on("error", (error) => console.error(error.message));
await boss.start();
await boss.createQueue(DEAD_LETTERS);
await boss.createQueue(QUEUE, {
  // A unique index allows one active job per singletonKey. Do not use key_strict_fifo: a failed job would block all
  // jobs behind it. Do not use groupConcurrency: two workers that fetch at the same moment take two jobs of one group.
  policy: "singleton",
  notify: true,
  deadLetter: DEAD_LETTERS,
  deleteAfterSeconds: 7 * DAY, // how long pg-boss knows an id after its job
  heartbeatSeconds: 30, // a dead worker's job is free after this and pg-boss's next check (each minute)
  expireInSeconds: 310, // longer than attemptTimeout
  // pg-boss counts each retry during an outage as an attempt. 25 attempts cover an outage of about 3 days.
  retryLimit: 25,
  retryBackoff: true,
  retryDelay: Number(RETRY_SECONDS),
  retryDelayMax: DAY / 4,
});

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  // pg-boss ignores a new job if it has a job with the same id, in any state.
  store: forwardTo((event) =>
    boss.send(QUEUE, event, { id: event.eventId, singletonKey: event.ref ?? event.eventId }),
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

async function work(job: JobWithMetadata<NewEvent>) {
  const { id, retryCount, signal } = job;
  try {
    await webhooks.process(job.data, { attempt: retryCount + 1, signal });
    return { id, status: "completed" as const };
  } catch (error) {
    if (!(error instanceof ProcessingError)) throw error;
    console.error(error.message);
    const output = { reason: error.reason, message: error.message };
    if (!error.retryable) return { id, status: "deadletter" as const, output };
    if (error.retryAfter !== undefined) {
      // A queue has one retry delay for all jobs, so change the start time of this job.
      await boss.fail(QUEUE, job, output);
      await boss.update(QUEUE, undefined, { id, startAfter: Math.ceil(error.retryAfter) });
    }
    return { id, status: "failed" as const, output }; // no effect if boss.fail() was called
  }
}

// Ten workers take one job each every 0.5 s, so polling starts at most 20 jobs a second. With `notify`, the default
// interval is 30 s. That is too long, because pg-boss does not notify of jobs that waited behind others.
await boss.work(
  QUEUE,
  {
    localConcurrency: 10,
    pollingIntervalSeconds: 0.5,
    notifyPollingIntervalSeconds: 0.5,
    includeMetadata: true,
    perJobResults: true,
  },
  (jobs: JobWithMetadata<NewEvent>[]) => Promise.all(jobs.map(work)),
);

const server = createServer(toNodeHandler(webhooks));
server.listen(Number(PORT), HOST, () =>
  console.log(`listening on port ${(server.address() as AddressInfo).port} of ${HOST}`),
);

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await webhooks.close();
  await boss.stop({ timeout: 10_000 }); // ms; then running jobs are aborted and retried
}
