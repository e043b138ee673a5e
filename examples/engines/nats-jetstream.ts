// Processes notifications on NATS JetStream (server 2.9 or later). A notification becomes a message, and is answered
// 200 when the stream has it. You can start several of these processes:
//   npm install stayhook @nats-io/jetstream @nats-io/transport-node
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node examples/engines/nats-jetstream.ts
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { AckPolicy, type JsMsg, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, headers, nanos } from "@nats-io/transport-node";
import { createWebhookHandler, forwardTo, ProcessingError, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import type { NewEvent } from "stayhook/store";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { HOST = "127.0.0.1", PORT = "3000" } = process.env;
const { NATS_URL = "nats://127.0.0.1:4222", STREAM = "stayhook", MAX_ATTEMPTS = "12" } = process.env;
const { RETRY_SECONDS = "5" } = process.env; // before the second attempt; later waits are longer

const DAY = 24 * 60 * 60_000; // ms
const BACKOFF = [Number(RETRY_SECONDS), 30, 120, 600, 1800, 3600, 7200]; // seconds; the last one repeats
// A consumer with max_ack_pending 1 handles one message at a time across all machines, so this example uses several. A
// booking or listing always uses the same consumer. LANES is also the limit of concurrent callbacks.
const LANES = 16;
// A message that waits for a retry would block its lane. So it waits on this subject.
const RETRIES = `${STREAM}.retries`;
const DEAD_LETTERS = `${STREAM}-dead`;

const connection = await connect({ servers: NATS_URL, maxReconnectAttempts: -1 });
const manager = await jetstreamManager(connection);
// NATS drops a message whose id it has seen within duplicate_window. max_age is longer, because a restarted server
// reads the ids from the messages. It keeps the ids in memory, so 7 days fit thousands of events a day, not millions.
const kept = { max_age: nanos(30 * DAY), duplicate_window: nanos(7 * DAY) };
await manager.streams.add({ name: STREAM, subjects: [`${STREAM}.>`], ...kept });
await manager.streams.add({ name: DEAD_LETTERS, subjects: [DEAD_LETTERS], ...kept });
const consumerOf = async (durable_name: string, filter_subject: string, max_ack_pending: number) => {
  const explicit = { ack_policy: AckPolicy.Explicit, ack_wait: nanos(30_000) };
  await manager.consumers.add(STREAM, { durable_name, filter_subject, max_ack_pending, ...explicit });
  return stream.consumers.get(STREAM, durable_name);
};
const stream = jetstream(connection, { timeout: 2000 }); // ms, then 503

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store: forwardTo((event) => stream.publish(laneOf(event), JSON.stringify(event), { msgID: event.eventId })),
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

/** Returns the same lane each time for a booking or listing. */
function laneOf({ ref, eventId }: NewEvent): string {
  const hash = createHash("sha256").update(ref ?? eventId);
  return `${STREAM}.lane.${hash.digest().readUInt32BE() % LANES}`;
}

const closing = new AbortController();

async function work(message: JsMsg): Promise<void> {
  // A redelivery counts as an attempt, because the last worker died with the message.
  const attempt = Number(message.headers?.get("attempt") || 1) + message.info.deliveryCount - 1;
  const stillThere = setInterval(() => message.working(), 10_000);
  try {
    if (attempt > Number(MAX_ATTEMPTS)) throw new Error("its worker died, each time");
    await webhooks.process(message.string(), { attempt, signal: closing.signal });
  } catch (error) {
    console.error((error as Error).message);
    // Publish before the ack, so that the message is always in at least one place. A repeated publish is harmless: the
    // stream drops a duplicate msgID.
    const [subject, sent] = whatNext(message, attempt, error);
    await stream.publish(subject, message.data, { headers: sent, msgID: `after-${message.seq}` });
  } finally {
    clearInterval(stillThere);
  }
  await message.ackAck();
}

function whatNext(message: JsMsg, attempt: number, error: unknown) {
  const { reason = "callback", retryable, retryAfter } = error as Partial<ProcessingError>;
  const since = message.headers?.get("since") || message.time.toISOString();
  const tooOld = message.time.getTime() - Date.parse(since) > 3 * DAY;
  const [lastWait] = BACKOFF.slice(-1);
  const sent = headers();
  sent.set("lane", message.subject);
  sent.set("since", since);
  sent.set("reason", reason);
  sent.set("error", (error as Error).message.replace(/[^\x20-\x7e]/g, "?"));
  sent.set("wait", String(retryAfter ?? BACKOFF[attempt - 1] ?? lastWait));
  sent.set("attempt", String(reason === "unavailable" ? attempt : attempt + 1)); // an outage is not an attempt
  const failed = !(error instanceof ProcessingError) || !retryable || tooOld;
  return [failed ? DEAD_LETTERS : RETRIES, sent] as const;
}

/** Delays a message at its first delivery. At the second delivery, sends it back to its lane. */
async function retry(message: JsMsg): Promise<void> {
  if (message.info.deliveryCount === 1) {
    message.nak(Number(message.headers?.get("wait")) * 1000);
    return;
  }
  const sent = headers();
  for (const name of ["attempt", "since"]) sent.set(name, message.headers?.get(name) ?? "");
  const lane = message.headers?.get("lane") ?? "";
  await stream.publish(lane, message.data, { headers: sent, msgID: `again-${message.seq}` });
  await message.ackAck();
}

async function run(name: string, subject: string, atOnce: number, handle: (message: JsMsg) => Promise<void>) {
  const messages = await (await consumerOf(name, subject, atOnce)).consume({ max_messages: 1 });
  const ended = (async () => {
    // A message without ack is redelivered after ack_wait.
    for await (const message of messages) await handle(message).catch((error) => console.error(error));
  })();
  return async () => {
    await messages.close();
    await ended;
  };
}

const lanes = Array.from({ length: LANES }, (_, lane) =>
  run(`lane-${lane}`, `${STREAM}.lane.${lane}`, 1, work),
);
const stops = await Promise.all([...lanes, run("retries", RETRIES, 100_000, retry)]);

const server = createServer(toNodeHandler(webhooks));
server.listen(Number(PORT), HOST, () =>
  console.log(`listening on port ${(server.address() as AddressInfo).port} of ${HOST}`),
);

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await webhooks.close();
  const cut = setTimeout(() => closing.abort(), 10_000);
  await Promise.all(stops.map((stop) => stop())); // waits for running messages
  clearTimeout(cut);
  await connection.drain();
}
