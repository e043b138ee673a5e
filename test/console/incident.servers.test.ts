import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import type { Page } from "playwright-core";
import { memoryStore } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { postgresStore } from "stayhook/postgres";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";
import { describe, expect, onTestFinished, test } from "vitest";
import { behindToken } from "../../src/console/console-token.ts";
import { storeConsole } from "../../src/console/inbox.ts";
import { postgresUrl } from "../support/postgres-server.ts";
import { serve } from "../support/serve.ts";
import { isSoak } from "../support/soak.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { hasChromium, openPage, overflowOf, screenshot, violationsOf } from "./chromium.ts";
import { incident } from "./incident.ts";

const connectionString = await postgresUrl();

const stores = {
  SQLite: () => {
    const directory = temporaryFolder();
    return sqliteStore(join(directory, "events.db"));
  },
  PostgreSQL: () => {
    const schema = `stayhook_console_${crypto.randomUUID().slice(0, 8)}`;
    onTestFinished(async () => {
      const client = new pg.Client({ connectionString });
      await client.connect();
      await client.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
      await client.end();
    });
    return postgresStore({ connectionString: connectionString!, schema });
  },
} as const;

const textOf = async (page: Page, selector = "main") =>
  (await page.locator(selector).first().innerText()).replace(/\s+/g, " ");
const isLive = (page: Page) => page.waitForSelector("[data-live-state]:text('Live')");

describe.skipIf(!hasChromium)("90 parked events of four causes", () => {
  test.skipIf(connectionString === undefined).each(Object.entries(stores).slice(0, isSoak ? 2 : 1))(
    "on %s, somebody finds what is wrong and whom it touches, replays the right ones, and sees what came of it",
    async (name, makeStore) => {
      const { url, webhooks, mendCalendar } = await incident(makeStore() as unknown as EventStore<never>);
      const page = await openPage({ viewport: { width: 1280, height: 900 } });
      const isClean = async (at: string) => {
        if (at !== "question") await isLive(page);
        expect(await violationsOf(page), at).toEqual([]);
        expect(await overflowOf(page), at).toBeLessThanOrEqual(0);
        await screenshot(page, `incident-${name}-${at}`);
      };
      // What is wrong.
      await page.goto(url);
      await page.click(".tabs .bad a");
      await page.waitForSelector("#causes");
      expect(await textOf(page, "#causes")).toMatch(
        /46 × callback Error at updateCalendar \(\/srv\/app\/calendar\.js:18:11\) Your callback threw\. 40 bookings in accounts a17, b7, c3.*24 × callback TypeError at welcome \(\/srv\/app\/mail\.js:41:27\) Your callback threw\. 24 bookings.*12 × denied PermissionDeniedError: GET \/v2\/bookings\/… was answered with 403 The platform refused the read\. 12 bookings in account b7.*8 × invalid-record/,
      );
      await isClean("causes");
      await page.click("text=Show them");
      await page.waitForSelector(
        "text=The calendar of … was not updated <- Error: connect ECONNREFUSED 10.0.0.7:5432",
      );
      expect(await textOf(page, "#causes")).toContain("reading 'email'");
      // Which bookings it touches.
      await page.click("text=46 × callback");
      await page.click("summary:text('40 bookings')");
      expect(await page.locator("#records li").count()).toBe(40);
      expect(await textOf(page, "#records")).toContain("a17/booking:CAL0");
      await isClean("cause");
      await page.click("#records a:text-is('b7/booking:CAL1')");
      await page.waitForSelector("h1:text('b7/booking:CAL1')");
      expect(await page.locator(".rows li").count()).toBe(2);
      await page.locator(".rows .main").first().click();
      await page.click("text=Parked events with this cause");
      await page.waitForSelector("#records");
      for (let n = 0; n < 3; n++) await page.goBack();
      await page.waitForSelector("#records");
      // The right ones are replayed.
      mendCalendar();
      await page.click("text=Replay these 46…");
      await page.waitForSelector("h1:text('Replay 46 parked events?')");
      expect(await textOf(page)).toContain("These events touch 40 bookings in accounts a17, b7, c3.");
      expect(await textOf(page)).toContain(
        "The calendar of … was not updated <- Error: connect ECONNREFUSED",
      );
      await isClean("question");
      await page.click("button:text('Replay 46 parked events')");
      await page.waitForSelector("text=Replayed 46 events. 0 done, 0 failed again, 46 waiting.");
      // What came of it.
      await webhooks.drain();
      await page.waitForSelector("text=Replayed 46 events. 46 done, 0 failed again, 0 waiting.");
      expect(await textOf(page, ".tabs")).toMatch(/Parked 44 Done 106/);
      await isClean("outcome");
      // The bug of the app is not mended yet, so its events fail again. They are found by their error.
      await page.click("#filter summary");
      await page.fill("[name=error]", "'EMAIL'");
      await page.click("text=Apply");
      await page.waitForURL("**error=*");
      await page.click("text=Replay all matching events…");
      await page.click("button:text('Replay 24 parked events')");
      await page.waitForSelector("text=Replayed 24 events. 0 done, 0 failed again, 24 waiting.");
      await webhooks.drain();
      await page.waitForSelector(
        "text=Replayed 24 events. 0 done, 24 failed again (parked, retrying), 0 waiting.",
      );
      await isClean("failed-again");
      // Back leads to the list from which the question came, not to the question.
      await page.goBack();
      await page.waitForURL((to) => !to.search.includes("confirm") && to.search.includes("error="));
    },
  );
});

describe.skipIf(!hasChromium)("in Chromium", () => {
  test.each(["light", "dark"] as const)(
    "the pages are clean for axe at 375 px, in %s",
    async (colorScheme) => {
      const { url } = await incident();
      const page = await openPage({ colorScheme, viewport: { width: 375, height: 740 } });
      await page.goto(`${url}/?state=parked&personal=1`);
      const cause = await page.locator(".causes a").first().getAttribute("href");
      const queries = { causes: "?state=parked", cause: cause!, question: `${cause}&confirm=replay` };
      for (const [name, query] of Object.entries(queries)) {
        await page.goto(`${url}/${query}`);
        if (name === "cause") await page.click("#records summary");
        expect(await violationsOf(page), name).toEqual([]);
        expect(await overflowOf(page), name).toBeLessThanOrEqual(0);
        await screenshot(page, `narrow-${name}-${colorScheme}`);
      }
    },
  );

  test("Back leads from an event that was replayed to its list, and personal data stays shown", async () => {
    const { url, store } = await incident();
    const page = await openPage();
    await page.goto(`${url}/?state=parked&reason=callback`);
    await page.click("text=Show personal data");
    await page.waitForSelector("text=Hide personal data");
    await page.locator(".rows .main").first().click();
    await page.waitForSelector("h2:text('Timeline')");
    expect(await textOf(page)).toMatch(/Error: (The calendar of|Cannot read properties)/);
    await page.click("text=Hide personal data");
    await page.waitForSelector("text=Show personal data");
    await page.click("text=Show personal data");
    await page.waitForSelector("text=Hide personal data");
    await page.click("button[value=replay]");
    await page.waitForSelector("text=Replayed 1 event.");
    expect(await store.counts()).toMatchObject({ pending: 1 });
    await page.goBack();
    await page.waitForSelector(".tabs");
    expect(new URL(page.url()).search).toBe("?state=parked&reason=callback&personal=1");
    expect(await page.locator(".crumb").count()).toBe(0);
  });

  test("Back leads from the question whether timers run early to the list", async () => {
    const { url, webhooks, store } = await incident();
    await webhooks.timers("a17/booking:FINE").set("mail", new Date(Date.now() + 6 * 86_400_000));
    const page = await openPage();
    await page.goto(`${url}/?state=scheduled`);
    await page.check(".rows input");
    await page.click("button[value=replay]");
    await page.waitForSelector("h1:text('Run 1 timer now, before its time?')");
    await page.goBack();
    await page.waitForSelector("h1:text-is('Events')");
    await isLive(page);
    await page.check(".rows input");
    await page.click("button[value=replay]");
    await page.click("button:text('Run 1 timer now')");
    await page.waitForSelector("text=Replayed 1 event.");
    const [timer] = await store.list({ state: "scheduled", limit: 1 });
    expect(Number(timer?.dueAt)).toBeLessThanOrEqual(Date.now());
    await page.goBack();
    await page.waitForURL((to) => to.search === "?state=scheduled");
  });

  test("a refused form says why, a form that cannot be sent says so, and Back and Cancel lead to the page before", async () => {
    const { url, store, receive, webhooks } = await incident();
    await receive("a17", "FINE0-0");
    const [claimed] = await store.claim({ limit: 1, leaseDuration: 60_000 });
    const page = await openPage({}, /responded with a status of 409|ERR_FAILED/);
    await page.goto(`${url}/?record=${claimed!.ref}`);
    await page.click("text=Erase…");
    await page.route("**/*", (route) => route.abort());
    await page.click("button:text('Erase')");
    await page.waitForSelector("[data-live-state]:text('Not sent: try again')");
    await page.unroute("**/*");
    await page.click("button:text('Erase')");
    await page.waitForSelector("text=is being handled now. Nothing was erased.");
    expect(await violationsOf(page)).toEqual([]);
    expect(await page.title()).toContain("The request was refused");
    await page.goBack();
    await page.waitForSelector("h1:text('Delete ')");
    await page.click("text=Cancel");
    await page.waitForSelector(`h1:text-is('${claimed!.ref}')`);
    await store.settle(claimed!, { state: "released" });
    await webhooks.drain();
  });

  test("the skip link does not load the page again", async () => {
    const { url } = await incident();
    const page = await openPage();
    await page.goto(`${url}/?state=parked`);
    await isLive(page);
    await page.evaluate(() => Object.assign(globalThis, { isSame: true }));
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForTimeout(500);
    expect(await page.evaluate(() => [document.activeElement?.id, "isSame" in globalThis])).toEqual([
      "main",
      true,
    ]);
  });

  test("a time is shown in UTC and in the zone of the browser; without scripts in UTC", async () => {
    const { url, store } = await incident();
    const { eventId, receivedAt } = (await store.list({ limit: 1 }))[0]!;
    const utc = `${receivedAt.toISOString().slice(0, 10)} ${receivedAt.toISOString().slice(11, 23)} UTC`;
    const local = new Intl.DateTimeFormat("sv-SE", { timeZone: "Asia/Kolkata", timeStyle: "medium" });
    const page = await openPage({ timezoneId: "Asia/Kolkata" });
    await page.goto(`${url}/?event=${eventId}`);
    const shown = await textOf(page, ".timeline li:last-child time");
    expect(shown.replace(/\d{4}-\d\d-\d\d (?=[\d:]+ GMT)/, "")).toMatch(
      new RegExp(`^${utc}, ${local.format(receivedAt)} GMT\\+5:30 \\(.*\\)$`),
    );
    await page.goto(`${url}/?state=parked`);
    expect(await page.locator(".rows time").first().getAttribute("title")).toMatch(/ UTC, .*GMT\+5:30$/);
    const plain = await openPage({ timezoneId: "Asia/Kolkata", javaScriptEnabled: false });
    await plain.goto(`${url}/?event=${eventId}`);
    expect(await textOf(plain, ".timeline li:last-child time")).toBe(utc);
    const inUtc = await openPage({ timezoneId: "UTC" });
    await inUtc.goto(`${url}/?event=${eventId}`);
    expect(await textOf(inUtc, ".timeline li:last-child time")).toMatch(/ UTC \(/);
  });

  test("at 390 px without scripts, no word of a row is broken", async () => {
    const { url, store } = await incident();
    const { eventId } = (await store.list({ state: "parked", type: "booking.Confirmed", limit: 1 }))[0]!;
    const page = await openPage({ viewport: { width: 390, height: 800 }, javaScriptEnabled: false });
    for (const query of ["?state=parked&reason=callback", `?event=${eventId}`, "?state=done"]) {
      await page.goto(`${url}/${query}`);
      const heights = await page
        .locator(".rows .main")
        .evaluateAll((links) => links.map((link) => link.getBoundingClientRect().height));
      expect(Math.max(0, ...heights), query).toBeLessThan(30);
      expect(await overflowOf(page)).toBeLessThanOrEqual(0);
    }
  });

  test("the page of a store that fails is styled, says so, and shows the list when the store is back", async () => {
    const store = memoryStore();
    const { url } = await incident(store as EventStore<never>);
    const counts = store.counts.bind(store);
    store.counts = async () => Promise.reject(new Error("gone"));
    const page = await openPage({}, /responded with a status of 503/);
    await page.clock.install();
    await page.goto(`${url}/?state=parked`);
    await page.waitForSelector("h1:text('The page cannot be shown now')");
    expect(await violationsOf(page)).toEqual([]);
    expect(await page.locator(".flash").evaluate((flash) => getComputedStyle(flash).borderRadius)).not.toBe(
      "0px",
    );
    await screenshot(page, "failure");
    await page.clock.runFor(3000);
    await page.waitForSelector("[data-live-state]:text('The store does not answer')");
    store.counts = counts;
    await page.clock.runFor(3000);
    await page.waitForSelector("#causes");
    await isLive(page);
    expect(await page.title()).toBe("Events: parked · Stayhook");
    const plain = await openPage({ javaScriptEnabled: false });
    store.counts = async () => Promise.reject(new Error("gone"));
    const answer = await plain.request.get(`${url}/`);
    expect(await answer.text()).toContain('<noscript><meta http-equiv="refresh" content="10"></noscript>');
  });

  test("a page of a command that was started again says to open the new URL, and is styled", async () => {
    const { store } = await incident();
    const consoleOf = (token: string) =>
      toNodeHandler(
        behindToken(token, (authorize) => storeConsole(store, { authorize, operated: () => {} })),
      );
    let current = consoleOf("first");
    const url = await serve((request, response) => current(request, response));
    const page = await openPage({}, /responded with a status of 403/);
    await page.clock.install();
    await page.goto(`${url}/?token=first`);
    await isLive(page);
    current = consoleOf("second");
    await page.clock.runFor(3000);
    await page.waitForSelector("[data-live-state]:text('Not live: load the page again')");
    await page.reload();
    await page.waitForSelector("text=open the new URL that the command has printed");
    expect(await violationsOf(page)).toEqual([]);
    expect(await page.locator("h1").evaluate((title) => getComputedStyle(title).fontSize)).toBe("20px");
    await screenshot(page, "new-url");
    await page.goto(`${url}/?token=second`);
    await isLive(page);
  });

  test("is in docs/images", async () => {
    const names = ["console-list", "console-event"];
    const fileOf = (name: string) => join(import.meta.dirname, `../../docs/images/${name}.png`);
    if (process.env.STAYHOOK_UPDATE_IMAGES === "1") {
      const { url, webhooks, store, receive } = await incident();
      const viewport = { width: 1160, height: 760 };
      const list = await openPage({ viewport });
      await list.goto(`${url}/?state=parked&personal=1`);
      // The plots need something to draw.
      for (let n = 0; n < 60; n++) {
        for (let more = 0; more < 3 + 3 * Math.sin(n / 5); more++) await receive("a17", `FINE0-${more % 5}`);
        if (n % 7 > 1) await webhooks.drain();
        await list.waitForTimeout(500);
      }
      await webhooks.drain();
      await list.waitForTimeout(2500);
      await list.screenshot({ path: fileOf("console-list") });
      const [event] = await store.list({ state: "parked", ref: "b7/booking:CAL1", limit: 1 });
      await store.replay({ eventId: event!.eventId });
      await webhooks.drain();
      const page = await openPage({ viewport, colorScheme: "dark", timezoneId: "Europe/Berlin" });
      await page.goto(`${url}/?event=${event!.eventId}&state=parked&personal=1`);
      await isLive(page);
      await page.screenshot({ path: fileOf("console-event") });
    }
    for (const name of names) {
      expect(readFileSync(fileOf(name)).subarray(1, 4).toString()).toBe("PNG");
      expect(statSync(fileOf(name)).size).toBeLessThan(150_000);
    }
  });
});
