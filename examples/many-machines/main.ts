// Runs two receivers and three workers on one store, and a sandbox of the platform that sends everything twice. It
// kills a worker in the middle. To run it with PostgreSQL or Redis:
//   npm install stayhook pg ioredis
//   DATABASE_URL=postgresql://… node examples/many-machines/main.ts
//   STORE=redis REDIS_URL=redis://… node examples/many-machines/main.ts
// If the totals do not add up, the exit code is 1.
import { StayhookClient } from "stayhook";
import { createSandbox } from "stayhook/testing";
import { balance } from "./balancer.ts";
import { Started } from "./processes.ts";

if (process.env.STORE !== "redis" && !process.env.DATABASE_URL) {
  console.error("Set DATABASE_URL to a PostgreSQL's, or STORE=redis (and REDIS_URL).");
  process.exit(2);
}

const deadline = setTimeout(() => {
  console.error("It did not end within two minutes.");
  process.exit(1);
}, 120_000);

const sandbox = createSandbox({ delivery: { duplicates: 1 } });
const { url: baseUrl } = await sandbox.listen();
const secret = crypto.randomUUID();
const env = {
  STAYHOOK_BASE_URL: baseUrl,
  STAYHOOK_ACCESS_TOKEN: sandbox.accessToken,
  WEBHOOK_SECRET: secret,
  PORT: "0",
};

/** By event id, the names of the workers that completed a callback of the event. */
const callbacks = new Map<string, string[]>();
let heard = () => {};

const ports = new Map<string, number>();
const webs = ["web 1", "web 2"].map(
  (name) =>
    new Started(name, "web.ts", env, (line) => {
      console.log(`${name}     ${line}`);
      const [, port] = /^listening on port (\d+) of /.exec(line) ?? [];
      if (port !== undefined) ports.set(name, Number(port));
      heard();
    }),
);
const workers = ["worker 1", "worker 2", "worker 3"].map(
  (name) =>
    new Started(name, "worker.ts", env, (line) => {
      console.log(`${name}  ${line}`);
      const [, eventId] = /^([0-9a-f-]{36}) /.exec(line) ?? [];
      if (eventId !== undefined) callbacks.set(eventId, [...(callbacks.get(eventId) ?? []), name]);
      heard();
    }),
);
await until(() => ports.size === webs.length);
const balancer = await balance([...ports.values()]);

const url = `${balancer.url}/?key=${secret}`;
const client = new StayhookClient({ baseUrl, accessToken: sandbox.accessToken });
await client.webhookConfig.ensure({ endpoints: { bookings: url, listings: url } });

const { listingId } = await sandbox.listings.submit({ listingName: "Harbour Loft" });
await sandbox.listings.publish(listingId);
const guests = Array.from({ length: 20 }, (_, i) => `guest ${i + 1}`);
const booked = await Promise.all(guests.map((guest) => sandbox.bookings.instantBook({ listingId, guest })));
await until(() => callbacks.size >= 5);
const [victim] = workers as [Started];
console.log(`\nkill -9 ${victim.pid}, which is ${victim.name}\n`);
await victim.end("SIGKILL");
for (const { bookingCode } of booked) await sandbox.bookings.cancel(bookingCode);
await sandbox.settled();
const events = 1 + 2 * guests.length;
await until(() => callbacks.size === events);

await Promise.all([...webs, ...workers.slice(1)].map((one) => one.end("SIGTERM")));
balancer.close();
await sandbox.close();
clearTimeout(deadline);

const { deliveries } = sandbox;
const answered = deliveries.filter(({ status }) => status === 200).length;
const runBy = [...callbacks.values()];
// If the kill came after a callback and before its result was recorded, another worker repeats the callback.
const again = runBy.filter((names) => names.length > 1);
const each = workers.map(({ name }) => `${name} ${runBy.filter((names) => names.at(-1) === name).length}`);
console.log(`\n${events} events, delivered ${deliveries.length} times, ${answered} times answered 200`);
console.log(`${callbacks.size} events handled: ${each.join(", ")}; again after the kill: ${again.length}`);
const addsUp =
  answered === 2 * events &&
  callbacks.size === events &&
  again.every((names) => names.length === 2 && names[0] === victim.name);
console.log(addsUp ? "It adds up." : "It does NOT add up.");
if (!addsUp) process.exitCode = 1;

/** Resolves when the condition holds. Checks it after each line of output. */
function until(isSo: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    heard = () => {
      if (isSo()) resolve();
    };
    heard();
  });
}
