// Plays what may happen to a booking on the files that readers copy, and compares what was done in the end: blocked
// nights, codes in doors, cleanings and mails.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type BookingStay, createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { afterEach, expect, test, vi } from "vitest";
import { createSubscriber } from "../../../examples/at-a-time/stays.ts";
import { extractBlocks } from "../../docs/extract.ts";
import { importApp, SECRET, setSettings } from "../support/imported-app.ts";
import { oddRows } from "./odd-rows.ts";
import { type Row, rows as usualRows } from "./rows.ts";
import { listingsOf, type Stage, setStage, ZONE, zoneOf } from "./stage.ts";

const generated = join(import.meta.dirname, "../generated/effects");
rmSync(generated, { recursive: true, force: true });

const rows = [...usualRows, ...oddRows];

type Column = "nights" | "door" | "cleaned" | "mails" | "welcomes";

/** Compares the columns of all rows, and shows the wrong ones. */
function expectRows(found: (row: Row) => Partial<Record<Column, readonly string[]>>): void {
  const wrong = rows.flatMap((row) =>
    Object.entries(found(row)).flatMap(([column, value]) => {
      const wanted = column === "welcomes" ? welcomesOf(row) : row[column as Exclude<Column, "welcomes">];
      const [is, should] = [[...value].sort().join(", "), [...wanted].sort().join(", ")];
      return is === should
        ? []
        : [`${row.name}: ${column} is ${is || "nothing"}, and not ${should || "nothing"}`];
    }),
  );
  expect(wrong).toEqual([]);
}

/** A guest is welcomed in each house whose door opens, but not twice in one house. */
const welcomesOf = ({ door, welcomes }: Row): readonly string[] =>
  welcomes ?? door.map((open) => open.replace(/ \d+h-.*/, ""));

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
  zones: Object.fromEntries(listingsOf(rows).map((id) => [id, zoneOf(rows, id) ?? ZONE])),
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
  const note =
    (what: string) =>
    async ({ bookingCode, listingId }: BookingStay, ...given: readonly unknown[]) =>
      stage.note(what, bookingCode, listingId, given.findLast((each) => typeof each === "string") as string);
  const nights = new Map<string, BookingStay>();
  const codes = new Map<string, string>();
  const { webhooks } = createSubscriber(clientOf(stage), memoryStore(), {
    zoneOf: (listingId) => zoneOf(rows, listingId),
    block: async (stay) => void nights.set(stay.bookingCode, stay),
    release: async ({ bookingCode, listingId }) => {
      if (nights.get(bookingCode)?.listingId === listingId) nights.delete(bookingCode);
    },
    openDoor: async (stay, _until, id) => {
      await note("open")(stay, id);
      codes.set(`${stay.bookingCode} ${stay.listingId}`, `code ${id}`);
      return `code ${id}`;
    },
    closeDoor: note("close"),
    mail: async (stay, text, id) => {
      if (text.startsWith("Your code is "))
        expect(text).toBe(`Your code is ${codes.get(`${stay.bookingCode} ${stay.listingId}`)}`);
      await note(text.startsWith("Your code is ") ? "welcome" : "mail")(stay, id);
    },
    clean: async (stay, id) => note("clean")(stay, id),
    decline: async () => {},
  });
  await stage.play({ webhooks, reconciler: createReconciler(webhooks, { rate: 10_000 }) });
  await webhooks.close();
  expectNothingClosed(stage);
  // Only a call that failed is repeated.
  const again = rows.filter((row) => stage.noted(row, "clean").length > stage.days(row, "clean").length);
  expect(again.map(({ name }) => name)).toEqual([]);
  const found = [...nights.values()].map((stay) => ({ ...stay }));
  expectRows((row) => ({
    // A house without a zone cannot be planned.
    ...(!row.nights.some((each) => each.startsWith("99")) && { nights: stage.staysOf(row, found) }),
    door: stage.door(row),
    cleaned: stage.days(row, "clean"),
    mails: stage.days(row, "mail"),
    welcomes: stage.days(row, "welcome"),
  }));
});

test("README: at a time", async () => {
  const stage = setStage(rows);
  const block = extractBlocks(["README.md"]).find(({ name }) => name === "at-a-time");
  mkdirSync(generated, { recursive: true });
  writeFileSync(join(generated, "stays.ts"), block!.code);
  printed.mockImplementation((...line) => {
    const [, what = "", id = ""] =
      /^(open|close|mail|clean)\b.* (\S+:\S+:\S+:\S+)$/.exec(line.join(" ")) ?? [];
    const [, code = "", house] = id.split(":");
    if (house !== undefined) stage.note(what, code, Number(house), id);
  });
  const { stays } = await import(/* @vite-ignore */ join(generated, "stays.ts"));
  const webhooks = createWebhookHandler({
    client: clientOf(stage),
    store: memoryStore(),
    verify: false,
    timeZone: ZONE,
    stays,
    on: {},
  });
  await stage.play({ webhooks, reconciler: createReconciler(webhooks, { rate: 10_000 }) });
  await webhooks.close();
  // The block has one zone for all houses, and no call of it fails.
  expectRows((row) =>
    /zone|fails/.test(row.name)
      ? {}
      : { door: stage.door(row), cleaned: stage.days(row, "clean"), mails: stage.days(row, "mail") },
  );
});

test.each(["door-codes", "cleaning", "availability-calendar"])("examples/%s", async (name) => {
  const stage = setStage(rows);
  printed.mockImplementation((line) => {
    const [, no, code = "", at] = /^(no )?code for (\S+) at (\d+)$/.exec(String(line)) ?? [];
    if (at) stage.note(no ? "close" : "open", code, Number(at));
  });
  const { file, ...app } = await importApp(name, settingsOf(stage, stage.sandbox.accessToken));
  await stage.play({ ...app, url: `https://app.example/?key=${encodeURIComponent(SECRET)}` });
  if (name === "door-codes") {
    expectNothingClosed(stage);
    return expectRows((row) => ({ door: stage.door(row) }));
  }
  const db = new DatabaseSync(file);
  const found = db
    .prepare(name === "cleaning" ? "SELECT * FROM cleanings" : "SELECT * FROM stays WHERE blocked")
    .all();
  db.close();
  if (name === "availability-calendar") return expectRows((row) => ({ nights: stage.staysOf(row, found) }));
  // This app has one zone for all houses.
  expectRows((row) => (/zone/.test(row.name) ? {} : { cleaned: stage.daysOf(row, found) }));
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
