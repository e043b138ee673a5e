// Plays what may happen to a booking on the files that readers copy, and compares what was done in the end: blocked
// nights, codes in doors, cleanings and mails.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type BookingStay, createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { afterEach, expect, test, vi } from "vitest";
import { createStays } from "../../../examples/at-a-time/stays.ts";
import { extractBlocks } from "../../docs/extract.ts";
import { importApp, SECRET, setSettings } from "../support/imported-app.ts";
import { oddRows } from "./odd-rows.ts";
import { type Row, rows as usualRows } from "./rows.ts";
import { listingsOf, type Stage, setStage, ZONE, zoneOf } from "./stage.ts";

const generated = join(import.meta.dirname, "../generated/effects");
rmSync(generated, { recursive: true, force: true });

const rows = [...usualRows, ...oddRows];

type Column = "nights" | "door" | "cleaned" | "plan" | "mails";

/** Compares the columns of all rows, and shows the wrong ones. */
function expectRows(found: (row: Row) => Partial<Record<Column, readonly string[]>>): void {
  const wrong = rows.flatMap((row) =>
    Object.entries(found(row)).flatMap(([column, value]) => {
      const wanted = column === "plan" ? (row.plan ?? row.cleaned) : row[column as Exclude<Column, "plan">];
      const [is, should] = [[...value].sort().join(", "), [...wanted].sort().join(", ")];
      return is === should
        ? []
        : [`${row.name}: ${column} is ${is || "nothing"}, and not ${should || "nothing"}`];
    }),
  );
  expect(wrong).toEqual([]);
}

vi.spyOn(console, "warn").mockImplementation(() => {});
vi.spyOn(console, "error").mockImplementation(() => {});
const printed = vi.spyOn(console, "log").mockImplementation(() => {});

afterEach(() => {
  vi.unstubAllGlobals();
  printed.mockImplementation(() => {});
});

const settingsOf = (stage: Stage, accessToken: string) => ({
  accessToken,
  answer: stage.answer,
  zone: ZONE,
  zones: Object.fromEntries(listingsOf(rows).map((id) => [id, zoneOf(rows, id)])),
});

/** Some readers close the door of the listing, and not of the booking. Then a past stay would lock another guest out. */
function expectNothingClosed(stage: Stage): void {
  const past = rows.find(({ name }) => name === "a past stay, told to watch()");
  expect(stage.noted(past!, "close")).toEqual([]);
}

const clientOf = (stage: Stage) =>
  new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: stage.sandbox.accessToken,
    fetch: stage.answer,
  });

test("the guide: at a time", async () => {
  const stage = setStage(rows);
  const { webhooks } = createStays(clientOf(stage), memoryStore(), {
    zoneOf: (listingId) => zoneOf(rows, listingId),
    openDoor: async ({ bookingCode, listingId }) => stage.note("open", bookingCode, listingId),
    closeDoor: async ({ bookingCode, listingId }) => stage.note("close", bookingCode, listingId),
    mail: async ({ bookingCode, listingId }, _text, id) => stage.note("mail", bookingCode, listingId, id),
    clean: async ({ bookingCode, listingId }, id) => stage.note("clean", bookingCode, listingId, id),
    decline: async () => {},
  });
  await stage.play({ webhooks, reconciler: createReconciler(webhooks, { rate: 10_000 }) });
  await webhooks.close();
  expectNothingClosed(stage);
  // Only a call that failed is repeated.
  const again = rows.filter((row) => stage.noted(row, "clean").length > stage.days(row, "clean").length);
  expect(again.map(({ name }) => name)).toEqual([]);
  expectRows((row) => ({
    door: stage.door(row),
    cleaned: stage.days(row, "clean"),
    mails: stage.days(row, "mail"),
  }));
});

test("README: timers", async () => {
  const stage = setStage(rows);
  const block = extractBlocks(["README.md"]).find(({ name }) => name === "at-a-time");
  mkdirSync(generated, { recursive: true });
  writeFileSync(join(generated, "timers.ts"), block!.code.replaceAll("console.log(", "globalThis.mail(to, "));
  vi.stubGlobal("mail", (to: BookingStay, _text: string, bookingCode: string, id: string) =>
    stage.note("mail", bookingCode, to.listingId, id),
  );
  const { on } = await import(/* @vite-ignore */ join(generated, "timers.ts"));
  const webhooks = createWebhookHandler({
    client: clientOf(stage),
    store: memoryStore(),
    verify: false,
    timeZone: ZONE,
    on,
  });
  await stage.play({ webhooks, reconciler: createReconciler(webhooks, { rate: 10_000 }) });
  await webhooks.close();
  // The block has one zone for all houses.
  expectRows((row) => (/zone/.test(row.name) ? {} : { mails: stage.days(row, "mail") }));
});

test.each(["door-codes", "cleaning", "availability-calendar"])("examples/%s", async (name) => {
  const stage = setStage(rows);
  printed.mockImplementation((line) => {
    const [, no, code = "", at] = /^(no )?code for (\S+) at (\d+)$/.exec(String(line)) ?? [];
    if (at) stage.note(no ? "close" : "open", code, Number(at));
  });
  const { file, ...app } = await importApp(name, settingsOf(stage, stage.sandbox.accessToken));
  await stage.play({ ...app, url: `https://app.example/?key=${encodeURIComponent(SECRET)}` });
  const tables = { cleaning: "cleanings", "availability-calendar": "stays WHERE blocked" };
  const table = tables[name as keyof typeof tables];
  if (name === "door-codes") expectNothingClosed(stage);
  if (!table) return expectRows((row) => ({ door: stage.door(row) }));
  const db = new DatabaseSync(file);
  const found = db.prepare(`SELECT * FROM ${table}`).all();
  db.close();
  expectRows((row) => ({ [name === "cleaning" ? "plan" : "nights"]: stage.staysOf(row, found) }));
});

test("examples/vendor", async () => {
  const stage = setStage(rows, ["a17"]);
  setSettings(settingsOf(stage, ""));
  const { saveAccount } = await import("../../../examples/vendor/accounts.ts");
  const { urlOf, webhooks, reconciler } = await import("../../../examples/vendor/webhooks.ts");
  const { calendarOf } = await import("../../../examples/vendor/calendar.ts");
  await saveAccount("a17", stage.sandbox.account("a17").accessToken);
  // A pass reads ten bookings a second.
  const watch = reconciler.watch.bind(reconciler);
  await stage.play({
    webhooks,
    reconciler: { run: async () => {}, watch },
    account: "a17",
    url: await urlOf("a17"),
  });
  await reconciler.close();
  await webhooks.close();
  const found = (await calendarOf("a17")).map(({ booking, listing, check_in, check_out }) => ({
    bookingCode: booking,
    listingId: listing,
    checkIn: check_in,
    checkOut: check_out,
  }));
  expectRows((row) => ({ nights: stage.staysOf(row, found) }));
});
