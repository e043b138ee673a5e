// Plays a day at the platform, and runs a subscriber in another process over real HTTP. Everything is delivered twice
// and out of order, and a callback fails once. At noon the subscriber is killed, and started again on the same file. At
// the end, both sides are compared. If they differ, the exit code is 1.
import { join } from "node:path";
import { StayhookClient } from "stayhook";
import { createSandbox } from "stayhook/testing";
import { createAccount, shortId } from "./account.ts";
import { type AtTheKill, gather } from "./gather.ts";
import { countOvertaken } from "./order.ts";
import { choosePort } from "./port.ts";
import { retell } from "./retell.ts";
import { playDay } from "./story.ts";
import { SubscriberProcess } from "./subscriber-process.ts";
import { Tally } from "./tally.ts";
import { temporaryDirectory } from "./temporary.ts";
import { sumUp } from "./totals.ts";

const deadline = setTimeout(() => {
  console.error("The day did not end within 15 s.");
  process.exit(1);
}, 14_500 - performance.now());

const account = createAccount();
const tally = new Tally();

account.heading("Before");
const sandbox = createSandbox({
  seed: process.env.SEED === undefined ? undefined : Number(process.env.SEED),
  delivery: {
    duplicates: 1,
    shuffle: 250,
    delay: [0, 200],
    retry: { schedule: [300, 600, 900, 1200, 1500, 1500, 1500] },
  },
  logger: { debug() {}, info() {}, warn: undelivered, error: undelivered },
});
const { url: baseUrl } = await sandbox.listen();
account.line("platform", `listens on ${baseUrl} (SEED=${sandbox.seed} repeats this day)`);

const [secret, port] = [crypto.randomUUID(), await choosePort()];
const subscriber = new SubscriberProcess(
  {
    STAYHOOK_BASE_URL: baseUrl,
    STAYHOOK_ACCESS_TOKEN: sandbox.accessToken,
    WEBHOOK_SECRET: secret,
    EVENTS_DB: join(temporaryDirectory(), "events.db"),
    PORT: String(port),
  },
  (told) => {
    retell(account, told);
    tally.count(told);
  },
);
await subscriber.start();
account.line("process", `${subscriber.pid}, the subscriber, listens on port ${port}`);

const client = new StayhookClient({ baseUrl, accessToken: sandbox.accessToken });
const url = `http://127.0.0.1:${port}/hooks?key=${secret}`;
const { action } = await client.webhookConfig.ensure({ endpoints: { bookings: url, listings: url } });
account.line("platform", `has the subscriber's URL now: configuration ${action}`);

const day = playDay(sandbox, account);

account.heading("Morning");
subscriber.send("fail-once");
await handled((await day.next()).value);

account.heading("Noon");
subscriber.send("hang");
await day.next();
const atTheKill = await killAtWork();

account.heading("Afternoon, nobody listens");
const untilAfternoon = (await day.next()).value;
await tally.until(() => tally.undelivered >= 4);

account.heading("Afternoon, on the same file");
await subscriber.start();
account.line("process", `${subscriber.pid}, the subscriber again, listens on port ${port}`);
await handled(untilAfternoon);

account.heading("Evening");
const moves = (await day.next()).value;
await handled(moves);
await subscriber.close();

account.heading("At the end of the day");
const sums = sumUp(gather(sandbox, tally, atTheKill, moves));
for (const sum of sums) account.sum(sum);
console.log(`  ${countOvertaken(sandbox.deliveries)} of the ${moves} events were overtaken by a later one`);
if (!sums.every((sum) => sum.holds)) process.exitCode = 1;

await sandbox.close();
clearTimeout(deadline);

/** Resolves when `events` events are delivered and done. */
async function handled(events: number): Promise<void> {
  await sandbox.settled();
  await tally.until(() => tally.done.size === events);
}

/** Kills the subscriber while callbacks run in all of its slots and other events wait. */
async function killAtWork(): Promise<AtTheKill> {
  await sandbox.settled();
  await tally.until(() => tally.running.size === 2);
  account.line(
    "killed",
    `kill -9 ${subscriber.pid}, in the middle of ${[...tally.running].map(shortId).join(", ")}`,
  );
  await subscriber.kill();
  const answered = sandbox.deliveries.filter(({ status }) => status === 200);
  return { answered: new Set(answered.map(({ eventId }) => eventId)).size, cut: tally.endRunning() };
}

/** Prints failed deliveries from the sandbox's log. */
function undelivered(message: string): void {
  account.line("unheard", message.replace(/[0-9a-f-]{36}/, shortId));
  tally.countUndelivered();
}
