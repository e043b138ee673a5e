// A day at the platform, and a subscriber beside it, on real HTTP: everything is delivered twice and out of
// order, and a callback fails once. In the end both sides are compared; what does not add up is exit code 1.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { StayhookClient, stay, type WebhookHandler } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { createSandbox } from "stayhook/testing";
import { createAccount } from "./account.ts";
import { Calendar } from "./calendar.ts";
import { countOvertaken } from "./order.ts";
import { playDay } from "./story.ts";
import { createSubscriber } from "./subscriber.ts";
import { sumUp } from "./totals.ts";

const deadline = setTimeout(() => {
  console.error("The day did not end within 15 s.");
  process.exit(1);
}, 14_500);

const account = createAccount();

account.heading("Before");
const seed = process.env.SEED === undefined ? undefined : Number(process.env.SEED);
const sandbox = createSandbox({ seed, delivery: { duplicates: 1, shuffle: 400, delay: [0, 300] } });
const { url: baseUrl } = await sandbox.listen();
account.line("platform", `listens on ${baseUrl} (SEED=${sandbox.seed} repeats this day)`);

const calendar = new Calendar();
const client = new StayhookClient({ baseUrl, accessToken: sandbox.accessToken });
const secret = crypto.randomUUID();
const { webhooks, counted } = createSubscriber(client, secret, calendar, account);
const server = createServer(toNodeHandler(webhooks));
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));

const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks?key=${secret}`;
const { action } = await client.webhookConfig.ensure({ endpoints: { bookings: url, listings: url } });
account.line("platform", `has the subscriber's URL now: configuration ${action}`);

const moves = await playDay(sandbox, account);
await sandbox.settled();
await handled(webhooks);
await webhooks.close();
server.close();

account.heading("At the end of the day");
const { deliveries } = sandbox;
const confirmed = sandbox.bookings.list().filter((booking) => booking.status === "Confirmed");
const sums = sumUp({
  ...counted,
  moves,
  deliveries: deliveries.length,
  answered200: deliveries.filter(({ status }) => status === 200).length,
  nightsBlocked: calendar.nightsBlocked,
  nightsReleased: calendar.nightsReleased,
  nightsConfirmed: confirmed.reduce((nights, booking) => nights + stay(booking).nights, 0),
  blockedCodes: calendar.bookingCodes,
  confirmedCodes: confirmed.map((booking) => booking.bookingCode),
});
for (const sum of sums) account.sum(sum);
console.log(`  ${countOvertaken(deliveries)} of the ${counted.events} events were overtaken by a later one`);
if (!sums.every((sum) => sum.holds)) process.exitCode = 1;

await sandbox.close();
clearTimeout(deadline);

/** Resolves when every event has been handled to its end, retries included. */
async function handled({ health }: WebhookHandler): Promise<void> {
  for (;;) {
    const { counts } = await health();
    if (counts.pending + counts.processing + counts.retrying === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
