// 25 bookings go through 300 random changes. 40 % of the changes are told to nobody, 25 % of the notifications are lost, and
// the app is killed five times. Behind a veil, bookings also vanish and return, statuses are misspelt, dates come as
// instants, and in the middle third of the changes 10 % of the reads are refused. Then its calendar, its doors and its messages are compared with the platform.
import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { StayhookClient } from "stayhook";
import { createSandbox, type Sandbox, type SandboxBooking } from "stayhook/testing";
import { expect, onTestFinished, test } from "vitest";
import { eventually, PATIENCE } from "../../support/eventually.ts";
import { postgresUrl } from "../../support/postgres-server.ts";
import { freePort } from "../../support/server-process.ts";
import { isSoak } from "../../support/soak.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { type Random, randomOf, seedOf } from "../random.ts";
import type { Settings } from "./app.ts";
import { dateOf, timesOf } from "./times.ts";
import { type Veil, veilOf, ZONE } from "./veil.ts";

const BOOKINGS = 25;
const CHANGES = Number(process.env.STAYHOOK_EFFECT_CHANGES ?? 300);
const KILLS = 5;
const DAY_MS = 250;

type Row = Record<string, unknown>;

interface Place {
  readonly settings: Partial<Settings>;
  rows(sql: string): Promise<Row[]> | Row[];
}

const postgres = await postgresUrl();
const places: Readonly<Record<string, () => Place>> = {
  SQLite: () => {
    const directory = temporaryFolder();
    const path = join(directory, "events.db");
    const rows = (sql: string) => {
      const db = new DatabaseSync(path, { timeout: 5000 });
      const all = db.prepare(sql).all();
      db.close();
      return all;
    };
    return { settings: { path }, rows };
  },
  ...(postgres !== undefined && {
    PostgreSQL: () => {
      const schema = `stayhook_effects_${randomUUID().replaceAll("-", "")}`;
      const pool = new pg.Pool({ connectionString: postgres, max: 1, options: `-c search_path=${schema}` });
      onTestFinished(async () => {
        await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
        await pool.end();
      });
      return { settings: { postgres, schema }, rows: async (sql) => (await pool.query(sql)).rows };
    },
  }),
};

async function start(settings: Settings): Promise<ChildProcess> {
  const app = fork(join(import.meta.dirname, "app.ts"), [JSON.stringify(settings)], { stdio: "pipe" });
  let said = "";
  app.stderr?.on("data", (text) => {
    said += text;
  });
  app.stdout?.resume();
  onTestFinished(() => void app.kill("SIGKILL"));
  const [told] = await Promise.race([once(app, "message"), once(app, "exit")]);
  if (told !== "ready") throw new Error(`the app ended: ${said}`);
  return app;
}

async function kill(app: ChildProcess): Promise<void> {
  app.kill("SIGKILL");
  await once(app, "exit");
}

/** Waits until the app knows all and has nothing to do. */
async function settle(sandbox: Sandbox, app: ChildProcess, veil: Veil | undefined): Promise<void> {
  await sandbox.settled();
  const codes = sandbox.bookings.list().map(({ bookingCode }) => bookingCode);
  app.send(codes.filter((code) => !veil?.vanished.has(code)));
  expect((await once(app, "message"))[0]).toBe("settled");
}

/** Changes one booking at random. A booking that has ended makes room for a new one. */
async function change(
  sandbox: Sandbox,
  codes: string[],
  random: Random,
  today: number,
  vanished: Set<string> | undefined,
): Promise<void> {
  const { bookings } = sandbox;
  const slot = random.below(BOOKINGS);
  const booking = bookings.get(codes[slot] ?? "");
  const checkIn = today - 6 + random.below(18);
  const dates = { checkIn: dateOf(checkIn), checkOut: dateOf(checkIn + 1 + random.below(8)) };
  const listingId = 100 + random.below(5);
  const isTold = random.below(10) >= 4;
  sandbox.delivery.set({ drop: isTold ? 0.25 : 1 });
  const code = booking?.bookingCode ?? "";
  if (vanished?.has(code)) {
    if (random.oneIn(2)) vanished.delete(code);
    else codes[slot] = "";
    return;
  }
  if (vanished && booking?.status === "Confirmed" && random.oneIn(5)) vanished.add(code);
  if (!booking || (booking.status !== "Request" && booking.status !== "Confirmed")) {
    const made = random.oneIn(2) ? bookings.request : bookings.instantBook;
    codes[slot] = (await made({ listingId, ...dates })).bookingCode;
  } else if (booking.status === "Request" && !random.oneIn(4))
    await (random.oneIn(5) ? bookings.decline(code) : bookings.approve(code));
  else if (random.oneIn(8) && booking.status === "Confirmed") await bookings.cancel(code);
  else await bookings.alter(code, random.oneIn(2) ? { listingId } : dates);
}

const stages = ["plain", "behind a veil"] as const;
// Behind the veil, all happens that happens without it. Only the zone is another.
const runs = (isSoak ? stages : (["behind a veil"] as const)).flatMap((stage) =>
  Object.entries(places).map(([name, make]) => [stage, name, make] as const),
);

test.each(runs)("a calendar, doors and messages stay right, %s, on %s", async (stage, _name, make) => {
  const place = make();
  const random = randomOf(seedOf("effects"));
  const sandbox = createSandbox({ delivery: { duplicates: 1, delay: [0, 20], shuffle: 3 } });
  onTestFinished(() => sandbox.close());
  const { url } = await sandbox.listen();
  const veil = stage === "plain" ? undefined : await veilOf(sandbox, random);
  const baseUrl = veil?.url ?? url;
  const { accessToken } = sandbox;
  const port = await freePort();
  const epoch = Date.now();
  const settings: Settings = {
    port,
    baseUrl,
    accessToken,
    epoch,
    dayMs: DAY_MS,
    ...place.settings,
    ...(veil && { timeZone: ZONE }),
  };
  let app = await start(settings);
  const client = new StayhookClient({ baseUrl: url, accessToken });
  await client.webhookConfig.ensure({ endpoints: { bookings: `http://127.0.0.1:${port}/` } });
  const today = () => Math.floor((Date.now() - epoch) / DAY_MS);

  const codes: string[] = [];
  const killAt = new Set(
    Array.from({ length: KILLS }, (_, n) => Math.floor(((n + 1) * CHANGES) / (KILLS + 1))),
  );
  for (let number = 0; number < CHANGES; number++) {
    if (veil) veil.refused = number > CHANGES / 3 && number < (CHANGES * 2) / 3 ? 0.1 : 0;
    await change(sandbox, codes, random, today(), veil?.vanished);
    await sleep(random.below(50));
    if (!killAt.has(number)) continue;
    await kill(app);
    app = await start(settings);
  }
  await settle(sandbox, app, veil);

  // Every stay is put where nothing is due during the comparison: half of them in the house, the others far away.
  const isThere = ({ bookingCode }: SandboxBooking) => !veil?.vanished.has(bookingCode);
  const confirmed = () =>
    sandbox.bookings.list().filter((booking) => booking.status === "Confirmed" && isThere(booking));
  if (veil) expect(veil.vanished.size).toBeGreaterThan(3);
  for (const [index, { bookingCode }] of confirmed().entries()) {
    sandbox.delivery.set({ drop: random.oneIn(2) ? 1 : 0 });
    const [from, until] = index % 2 === 0 ? [-40, 2000] : [3000, 3004];
    await sandbox.bookings.alter(bookingCode, {
      checkIn: dateOf(today() + from),
      checkOut: dateOf(today() + until),
    });
  }
  await settle(sandbox, app, veil);
  const now = Date.now();
  const inHouse = (booking: SandboxBooking) => {
    const { arrival, departure } = timesOf(booking, settings);
    return arrival.getTime() <= now && now < departure.getTime();
  };
  const stays = (await place.rows("SELECT * FROM stays")).map(
    (row) => `${row.code} ${row.listing} ${row.check_in} ${row.check_out}`,
  );
  expect(stays.toSorted()).toEqual(
    confirmed()
      .map((booking) => `${booking.bookingCode} ${booking.listingId} ${booking.checkIn} ${booking.checkOut}`)
      .toSorted(),
  );
  const doors = (await place.rows("SELECT * FROM doors")).map((row) => `${row.code} ${row.listing}`);
  const wanted = confirmed()
    .filter(inHouse)
    .map((booking) => `${booking.bookingCode} ${booking.listingId}`);
  expect(wanted.length).toBeGreaterThan(3);
  expect(doors.toSorted()).toEqual(wanted.toSorted());

  // A stay that moves to a day whose message is still to come gets one message for it; none gets two for one day.
  sandbox.delivery.set({ drop: 0 });
  const moved = new Map<string, string>();
  for (const { bookingCode } of confirmed()) {
    const checkIn = dateOf(today() + 2 + 10);
    await sandbox.bookings.alter(bookingCode, { checkIn, checkOut: dateOf(today() + 2000) });
    moved.set(bookingCode, checkIn);
  }
  const messages = async () =>
    (await place.rows("SELECT * FROM messages")).map((row) => `${row.code} ${row.check_in}`);
  const missing = async () => {
    const sent = new Set(await messages());
    return due.filter((each) => !sent.has(each));
  };
  const due = [...moved].map(([code, checkIn]) => `${code} ${checkIn}`);
  await eventually(async () => expect(await missing()).toEqual([]), PATIENCE, 200);
  const sent = await messages();
  expect(sent.length).toBe(new Set(sent).size);
  console.log(`${sent.length} messages, ${doors.length} open doors, ${stays.length} stays`);
  await kill(app);
});
