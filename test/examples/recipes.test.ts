// Plays the apps that readers copy, and compares what each app holds with what the platform shows: bookings are made,
// moved, declined and cancelled, while notifications are lost, late, repeated and out of order.
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Server as NetServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { listingIdOf, memoryStore, StayhookClient, stay, type WebhookHandler } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { createSandbox, type Sandbox } from "stayhook/testing";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createSubscriber, memoryCalendar } from "../../examples/testing/subscriber.ts";
import { extractBlocks } from "../docs/extract.ts";
import { eventually } from "../support/eventually.ts";
import { type Random, randomOf } from "../system/random.ts";

const root = join(import.meta.dirname, "../..");
const generated = join(import.meta.dirname, "generated/recipes");
const SECRET = "a secret of many letters";
const SEED = Number(process.env.SEED ?? 24);

/** The nights that are blocked: one text for each night of a listing. */
type Nights = Set<string>;
type Stay = { readonly checkIn: string; readonly checkOut: string };

/** Apps that print `block` and `release`, each in a file. Their handler is exported, or a test appends the export. */
const starters = [
  ...["node-http.ts", "express.ts", "fastify.ts", "koa.ts", "hono.ts", "reconcile.ts"],
  ...["routes/webhooks.ts", "next/webhooks.ts", "lambda/function.ts"],
];

/** A recipe that releases the nights that the booking shows when it is cancelled, which may not be those that it blocked. */
const releasesByDates = `
    "booking.Confirmed": async ({ booking }) => console.log("block", booking.listingId, booking),
    "booking.Cancelled": async ({ booking }) => console.log("release", booking.listingId, booking),`;

const printed = vi.spyOn(console, "log").mockImplementation(() => {});
vi.spyOn(console, "warn").mockImplementation(() => {});
// The apps end their process when they have closed themselves.
vi.spyOn(process, "exit").mockImplementation((() => {}) as unknown as typeof process.exit);
const servers: NetServer[] = [];
const listen = NetServer.prototype.listen;
NetServer.prototype.listen = function (this: NetServer, ...given: unknown[]) {
  servers.push(this);
  return Reflect.apply(listen, this, given);
};
const home = process.cwd();
let directory = "";
let sandbox: Sandbox;
const listeners = process.listeners("SIGTERM");

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "stayhook-recipes-"));
  process.chdir(directory);
  printed.mockClear();
  sandbox = createSandbox({ seed: SEED });
  const { url } = await sandbox.listen();
  servers.length = 0; // the apps' servers only
  const settings = { STAYHOOK_BASE_URL: url, STAYHOOK_ACCESS_TOKEN: sandbox.accessToken };
  const names = { WEBHOOK_SECRET: SECRET, PORT: "0", EVENTS_DB: "events.db" };
  for (const [name, value] of Object.entries({ ...settings, ...names })) vi.stubEnv(name, value);
});
afterEach(async () => {
  for (const listener of process.listeners("SIGTERM"))
    if (!listeners.includes(listener)) {
      await (listener as () => unknown)(); // the app closes itself
      process.off("SIGTERM", listener);
    }
  await sandbox.close();
  for (const server of servers.splice(0)) server.close();
  process.chdir(home);
  rmSync(directory, { recursive: true, force: true });
  vi.unstubAllEnvs();
});

rmSync(generated, { recursive: true, force: true });

test("the README's app", async () => {
  await expectTheSame(await importApp("readme", blockOf("twelve-lines")), heldByLines);
});

test("the README's app with event.atomically", async () => {
  const webhooks = await importApp("atomically", blockOf("atomically"));
  await expectTheSame(webhooks, () => heldIn("calendar.db", "SELECT * FROM stays"));
});

test.each(starters)("examples/%s", async (path) => {
  const code = readFileSync(join(root, "examples", path), "utf8");
  await expectTheSame(await importApp(path.replace(/\W/g, "-"), code), heldByLines);
});

test("examples/availability-calendar", async () => {
  const name = "availability-calendar";
  cpSync(join(root, "examples", name), join(generated, name), { recursive: true });
  const code = readFileSync(join(root, "examples", name, "main.ts"), "utf8");
  const rows = "SELECT listingId, checkIn, checkOut FROM stays WHERE blocked";
  await expectTheSame(await importApp(name, code), () => heldIn("events.db", rows));
});

test("examples/testing", async () => {
  const { calendar, blocked } = memoryCalendar();
  const client = new StayhookClient({ baseUrl: sandbox.url, accessToken: sandbox.accessToken });
  const held = () =>
    new Set(
      [...blocked.values()].flatMap((text) => {
        const [, listingId, checkIn = "", checkOut = ""] = /^(\d+): (\S+) to (\S+)$/.exec(text) ?? [];
        return nightsOf(listingId, { checkIn, checkOut });
      }),
    );
  const webhooks = createSubscriber(client, memoryStore(), calendar);
  await expectTheSame(webhooks, held, { secret: "s3cret-of-a-test" });
});

test("a recipe that releases what a cancelled booking shows leaves nights blocked", async () => {
  const starter = readFileSync(join(root, "examples/node-http.ts"), "utf8");
  const old = starter.replace(
    /\n {4}"booking\.Confirmed"(?:.|\n)*?\n {4}"booking\.Cancelled".*/,
    releasesByDates,
  );
  expect(old).not.toBe(starter);
  const webhooks = await importApp("by-dates", old);
  // Each change is handled before the next one, so that the result does not depend on the speed of the machine.
  await expect(expectTheSame(webhooks, heldByLines, { inTurn: true })).rejects.toThrow(/seed/);
});

// Some recipes cannot run in this process: those for Bun, Deno, Workers and NestJS, and those in TSDoc.
test("no recipe releases what a cancelled booking shows", () => {
  const paths = globSync(["README.md", "docs/**/*.md", "examples/**/*.{ts,cjs}", "src/**/*.ts"], {
    cwd: root,
    exclude: ["docs/reference", "**/node_modules"],
  });
  const lines = paths.flatMap((path) =>
    readFileSync(join(root, path), "utf8")
      .split("\n")
      .map((line) => `${path}: ${line}`),
  );
  expect(lines.length).toBeGreaterThan(10_000);
  expect(
    lines.filter((line) => /"release"|releaseNights|\.release\(/.test(line) && /stay\(/.test(line)),
  ).toEqual([]);
});

/** Plays the bookings, lets the reconciler find the lost changes, and compares the blocked nights of both sides. */
async function expectTheSame(
  webhooks: WebhookHandler,
  held: () => Nights,
  { secret = SECRET, inTurn = false } = {},
): Promise<void> {
  sandbox.deliverTo((request) => webhooks.fetch(withKey(request, secret)));
  const client = new StayhookClient({ baseUrl: sandbox.url, accessToken: sandbox.accessToken });
  await client.webhookConfig.ensure({ endpoints: { bookings: "https://app.example/hooks" } });
  const random = randomOf(SEED);
  sandbox.delivery.set({ duplicates: 1, duplicateAfter: [0, 30], drop: 0.25, delay: [0, 20], shuffle: 5 });
  const stories = Array.from({ length: 24 }, (_, number) => storyOf(random, number));
  for (let step = 0; step < 7; step++) {
    for (const story of stories) await story.shift()?.();
    if (random.oneIn(2)) await sleep(20);
    if (random.oneIn(2)) await webhooks.drain();
    if (!inTurn) continue;
    await sandbox.settled();
    await handled(webhooks);
  }
  await sandbox.settled();
  await handled(webhooks);
  const bookings = sandbox.bookings.list();
  const reconciler = createReconciler(webhooks, { baseline: false, logger: () => {} });
  await reconciler.watch(bookings.map(({ bookingCode }) => bookingCode)); // all notifications of one may be lost
  // Some apps have a reconciler of their own, which may be making its first pass.
  await eventually(async () => expect((await reconciler.run()).incomplete).toBeUndefined());
  await handled(webhooks);
  await reconciler.close();
  const confirmed = bookings.filter(({ status }) => status === "Confirmed");
  expect(confirmed.length).toBeGreaterThan(0);
  const nights = confirmed.flatMap((booking) => nightsOf(listingIdOf(booking), stay(booking)));
  expect([...held()].sort(), `seed ${SEED}`).toEqual(nights.sort());
}

/** What happens to one booking. No two bookings share a night of a listing, so that nights can be compared as a set. */
function storyOf(random: Random, number: number): (() => Promise<unknown>)[] {
  const { bookings } = sandbox;
  const at = () => ({ listingId: 1000 * (number + 1) + random.below(3) });
  const dates = () => {
    const day = 1 + random.below(20);
    const text = (value: number) => `2027-05-${String(value).padStart(2, "0")}`;
    return { checkIn: text(day), checkOut: text(day + 1 + random.below(5)) };
  };
  const bookingCode = `B${number}`;
  const fields = { bookingCode, ...at(), ...dates() };
  const moves = [() => bookings.alter(bookingCode, dates()), () => bookings.alter(bookingCode, at())];
  const cancel = () => bookings.cancel(bookingCode);
  const later = [...moves, ...moves].filter(() => random.oneIn(2));
  if (random.oneIn(2)) later.push(cancel);
  if (random.oneIn(2)) return [() => bookings.instantBook(fields), ...later];
  const request = () => bookings.request(fields);
  if (random.oneIn(3)) return [request, ...moves, () => bookings.decline(bookingCode)];
  return [request, () => bookings.approve(bookingCode), ...later];
}

/** Resolves when no event waits. */
async function handled(webhooks: WebhookHandler): Promise<void> {
  for (let round = 0; round < 500; round++) {
    await webhooks.drain();
    const { counts } = await webhooks.health();
    if (counts && counts.pending + counts.processing + counts.retrying === 0) return;
    await sleep(10);
  }
  throw new Error("events wait for too long");
}

/** Imports a copy of an app that exports its handler. */
async function importApp(name: string, code: string): Promise<WebhookHandler> {
  const directory = join(generated, name);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "webhooks.mts"), clientModule);
  const isExported = /^export const webhooks\b/m.test(code);
  const app = `${code.replaceAll("3000", "0")}\n${isExported ? "" : "export { webhooks };\n"}`;
  writeFileSync(join(directory, "app.ts"), app);
  const { webhooks } = await import(/* @vite-ignore */ join(directory, "app.ts"));
  return webhooks;
}

function heldIn(file: string, rows: string): Nights {
  const db = new DatabaseSync(file);
  const stays = db.prepare(rows).all();
  db.close();
  return new Set(stays.flatMap((row) => nightsOf(row.listingId, row as unknown as Stay)));
}

/** Reads the lines that an app printed, as a calendar would take them: by booking code, or by listing and dates. */
function heldByLines(): Nights {
  const byCode = new Map<unknown, string[]>();
  const byDates: Nights = new Set();
  for (const [verb, ...rest] of printed.mock.calls) {
    const [first, second, third, fourth] = rest;
    if (verb === "block" && typeof first === "string")
      byCode.set(
        first,
        typeof second === "string"
          ? nightsOf(JSON.parse(second).listingId, JSON.parse(second))
          : nightsOf(second, { checkIn: third, checkOut: fourth }),
      );
    else if (verb === "release" && typeof first === "string") byCode.delete(first);
    else if (verb === "block") for (const night of nightsOf(first, second)) byDates.add(night);
    else if (verb === "release") for (const night of nightsOf(first, second)) byDates.delete(night);
  }
  return new Set([...byDates, ...[...byCode.values()].flat()]);
}

function nightsOf(listingId: unknown, { checkIn, checkOut }: Stay): string[] {
  const nights: string[] = [];
  for (let day = Date.parse(checkIn); day < Date.parse(checkOut); day += 86_400_000)
    nights.push(`${listingId}: ${new Date(day).toISOString().slice(0, 10)}`);
  return nights;
}

/** The module that the README's blocks import. */
const clientModule = `import { StayhookClient } from "stayhook";
export const client = new StayhookClient();
`;

function blockOf(name: string): string {
  const block = extractBlocks(["README.md"]).find((each) => each.name === name);
  if (block === undefined) throw new Error(`README has no block ${name}`);
  return block.code;
}

function withKey(request: Request, key: string): Request {
  return new Request(`${request.url}?key=${encodeURIComponent(key)}`, request);
}
