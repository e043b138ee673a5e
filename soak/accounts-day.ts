// Plays a day of the sandbox's clock with 300 accounts: bookings, alterations and cancellations, lost notifications, a
// subscriber that is killed five times, and an account whose token is refused for a part of the day. At the end, the
// calendar of each account equals the platform's confirmed bookings.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { createSandbox, type Sandbox, type SandboxAccount } from "stayhook/testing";
import { freePort } from "../test/support/server-process.ts";
import { type Random, randomOf, seedOf } from "../test/system/random.ts";
import type { Settled, SubscriberOptions, Untold } from "./accounts-day-worker.ts";
import type { Row } from "./table.ts";

const ACCOUNTS = Array.from({ length: 300 }, (_, n) => `a${n}`);
/** The accounts that get a third of all changes. */
const BUSY = ACCOUNTS.slice(0, 10);
/** The account whose token is refused. */
const REFUSED = "a7";
const MINUTE = 60_000;
const STEP = 15 * MINUTE;
const STEPS = 96;
const CHANGES = 30;
/** The steps in which the subscriber is killed. None follows the refusals, so that the account has to resume by itself. */
const KILLS = [10, 22, 34, 50, 62];
/** The steps in which the token is refused. */
const [REFUSED_FROM, REFUSED_UNTIL] = [40, 72];
/** The longest day, start and end of the run in real time, ms. */
const [MOST_DAY, MOST_START, MOST_END] = [150_000, 20_000, 200_000];

const dateIn = (days: number) => new Date(Date.now() + days * 1440 * MINUTE).toISOString().slice(0, 10);

async function start(options: SubscriberOptions): Promise<ChildProcess> {
  const child = fork(join(import.meta.dirname, "accounts-day-worker.ts"), [JSON.stringify(options)]);
  try {
    await told(child, MOST_START);
    return child;
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
}

/** Returns the next message of the subscriber. */
async function told(child: ChildProcess, most: number): Promise<unknown> {
  const signal = AbortSignal.timeout(most);
  const ended = once(child, "exit", { signal }).then(([code]) => {
    throw new Error(`the subscriber ended with ${code}`);
  });
  const [message] = await Promise.race([once(child, "message", { signal }), ended]);
  return message;
}

/** Makes, alters, approves, declines or cancels one booking at random. */
async function change({ bookings }: SandboxAccount, random: Random): Promise<void> {
  const open = bookings.list().filter(({ status }) => status === "Request" || status === "Confirmed");
  const from = 2 + random.below(60);
  const dates = { checkIn: dateIn(from), checkOut: dateIn(from + 1 + random.below(8)) };
  const listingId = 100 + random.below(5);
  if (open.length === 0 || random.oneIn(3)) {
    await (random.oneIn(3) ? bookings.request : bookings.instantBook)({ listingId, ...dates });
    return;
  }
  const { bookingCode, status } = random.pick(open);
  if (status === "Request" && !random.oneIn(4))
    await (random.oneIn(4) ? bookings.decline : bookings.approve)(bookingCode);
  else if (random.oneIn(3)) await bookings.cancel(bookingCode);
  else await bookings.alter(bookingCode, random.oneIn(2) ? { listingId } : dates);
}

/** Plays the day, and returns the subscriber that runs at its end. */
async function playDay(
  sandbox: Sandbox,
  random: Random,
  first: ChildProcess,
  startAgain: () => Promise<ChildProcess>,
): Promise<ChildProcess> {
  let subscriber = first;
  const refused = sandbox.account(REFUSED);
  const end = performance.now() + MOST_DAY;
  for (let step = 0; step < STEPS; step += 1) {
    if (performance.now() > end) throw new Error(`the day took too long: step ${step} of ${STEPS}`);
    if (step === REFUSED_FROM) refused.faults.set([{ status: 401 }]);
    if (step === REFUSED_UNTIL) refused.faults.clear();
    // Notifications come one by one, or in a burst.
    const way = random.oneIn(2)
      ? { delay: [0, STEP] as const, shuffle: false }
      : { delay: 0, shuffle: MINUTE };
    sandbox.delivery.set({ ...way, duplicates: random.below(2) });
    for (let n = 0; n < CHANGES; n += 1)
      await change(sandbox.account(random.pick(random.oneIn(3) ? BUSY : ACCOUNTS)), random);
    if (step >= REFUSED_FROM && step < REFUSED_UNTIL) await change(refused, random);
    const passing = sandbox.advance(STEP);
    if (KILLS.includes(step)) {
      await sleep(random.below(200));
      const ended = once(subscriber, "exit");
      subscriber.kill("SIGKILL");
      await ended;
      subscriber = await startAgain();
    }
    await passing;
  }
  // The last delays and retries end.
  await sandbox.advance(2 * STEP);
  await sandbox.settled();
  return subscriber;
}

/** Returns the bookings of which the subscriber has answered 200 to no notification. */
function untoldOf(sandbox: Sandbox): Untold {
  const answered = sandbox.deliveries.filter(({ status }) => status === 200);
  const codeOf = (notification: unknown) => (notification as { readonly bookingCode: string }).bookingCode;
  const known = new Set(answered.map(({ account, notification }) => `${account}/${codeOf(notification)}`));
  return ACCOUNTS.map((account) => {
    const codes = sandbox
      .account(account)
      .bookings.list()
      .map(({ bookingCode }) => bookingCode);
    return [account, codes.filter((code) => !known.has(`${account}/${code}`))] as const;
  }).filter(([, codes]) => codes.length > 0);
}

/** Returns each stay as a line, such as `a7 HX3K9 101 2027-05-01 2027-05-04`. */
function calendarsOf(sandbox: Sandbox): string[] {
  return ACCOUNTS.flatMap((account) => {
    const confirmed = sandbox
      .account(account)
      .bookings.list()
      .filter(({ status }) => status === "Confirmed");
    return confirmed.map(
      ({ bookingCode, listingId, checkIn, checkOut }) =>
        `${account} ${bookingCode} ${listingId} ${checkIn} ${checkOut}`,
    );
  });
}

function rowsOf(path: string, sql: string): Record<string, unknown>[] {
  const db = new DatabaseSync(path, { readOnly: true, timeout: 5000 });
  try {
    return db.prepare(sql).all();
  } finally {
    db.close();
  }
}

function compare(sandbox: Sandbox, path: string, { passes, left }: Settled, untold: Untold): Row {
  const wanted = new Set(calendarsOf(sandbox));
  const stays = rowsOf(path, "SELECT account, code, listing, check_in, check_out FROM calendar");
  const found = new Set(stays.map((row) => Object.values(row).join(" ")));
  const missing = [...wanted].filter((stay) => !found.has(stay));
  const wrong = [...found].filter((stay) => !wanted.has(stay));
  for (const stay of missing.slice(0, 10)) console.log(`missing in the calendar: ${stay}`);
  for (const stay of wrong.slice(0, 10)) console.log(`wrong in the calendar: ${stay}`);
  for (const event of left) console.log(`left: ${event}`);
  const [{ handled, events } = {}] = rowsOf(
    path,
    "SELECT count(*) AS handled, count(DISTINCT event_id) AS events FROM handled",
  );
  const twice = Number(handled) - Number(events);
  const { deliveries } = sandbox;
  const refusals = sandbox.account(REFUSED).requests.filter(({ status }) => status === 401).length;
  const checked = passes.at(-1)?.accounts?.checked ?? 0;
  const changed = passes.reduce((sum, pass) => sum + pass.changed, 0);
  const dropped = deliveries.filter((delivery) => delivery.dropped).length;
  const unanswered = deliveries.filter((delivery) => !delivery.dropped && delivery.status !== 200).length;
  return {
    cells: {
      accounts: `${checked}/${ACCOUNTS.length}`,
      deliveries: String(deliveries.length),
      dropped: String(dropped),
      unanswered: String(unanswered),
      "never told": String(untold.flatMap(([, codes]) => codes).length),
      kills: String(KILLS.length),
      "reads refused": String(refusals),
      "events handled": String(events),
      "committed twice": String(twice),
      "found by passes": `${changed}, ${passes.length} run`,
      stays: String(stays.length),
      missing: String(missing.length),
      wrong: String(wrong.length),
      left: String(left.length),
    },
    failed:
      missing.length + wrong.length + left.length + twice > 0 ||
      // Without these, the day has tested nothing.
      checked < ACCOUNTS.length ||
      refusals === 0 ||
      dropped === 0 ||
      changed === 0 ||
      wanted.size === 0,
  };
}

export async function accountsDay(): Promise<Row[]> {
  const seed = seedOf("accounts-day");
  const directory = mkdtempSync(join(tmpdir(), "stayhook-soak-day-"));
  const path = join(directory, "events.db");
  const retry = { schedule: ["1m", "20m"] };
  const sandbox = createSandbox({ seed, accounts: ACCOUNTS, delivery: { drop: 0.15, retry } });
  const { url: baseUrl } = await sandbox.listen();
  const options = { path, port: await freePort(), baseUrl, accounts: ACCOUNTS, isFirst: false };
  let subscriber: ChildProcess | undefined;
  const startAgain = async (): Promise<ChildProcess> => {
    subscriber = await start(options);
    return subscriber;
  };
  try {
    const began = performance.now();
    subscriber = await start({ ...options, isFirst: true });
    const last = await playDay(sandbox, randomOf(seed), subscriber, startAgain);
    const dayTook = performance.now() - began;
    const untold = untoldOf(sandbox);
    last.send(untold);
    const row = compare(sandbox, path, (await told(last, MOST_END)) as Settled, untold);
    const took = performance.now() - began;
    const seconds = `${(dayTook / 1000).toFixed(0)} of ${(took / 1000).toFixed(0)}`;
    return [{ ...row, cells: { ...row.cells, "seconds of the day": seconds } }];
  } finally {
    subscriber?.kill("SIGKILL");
    await sandbox.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
