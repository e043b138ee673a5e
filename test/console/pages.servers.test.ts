import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { hasChromium, openPage, overflowOf, screenshot, violationsOf } from "./chromium.ts";
import { servedInboxOf } from "./support.ts";

/** Serves a console with events in every state but one. The callback fails while `state.isBroken`. */
async function season() {
  const state = { isBroken: true };
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const made = await servedInboxOf({
    on: {
      "booking.Request": () => held,
      "booking.Cancelled": () => {
        if (state.isBroken)
          throw new Error("the calendar answered 500", { cause: new Error("lock of room 12 timed out") });
      },
    },
    maxAttempts: 2,
    backoff: () => 1,
  });
  const { platform, receive, webhooks } = made;
  const statuses = { HX3K9: "Cancelled", PL7QD: "Cancelled", QW2MN: "Confirmed", RT8VB: "Confirmed" };
  for (const [code, status] of Object.entries(statuses))
    platform.booking(code, status, {
      checkIn: "2026-12-01",
      checkOut: "2026-12-05",
      listingId: 5717008,
      guestName: "Ann Lee",
    });
  platform.listing(5717008, "Published", { listingName: "By the sea" });
  const first = await receive({ bookingCode: "QW2MN" });
  await receive({ listingId: 5717008, bookingCode: null });
  await receive({ bookingCode: "RT8VB" });
  const parked = await receive({ bookingCode: "HX3K9", guest: "Ann Lee" });
  await receive({ bookingCode: "PL7QD" });
  // A drain does not wait for a retry that is due soon, so repeat the drain.
  await expect
    .poll(async () => {
      await webhooks.drain();
      return (await made.store.counts()).parked;
    })
    .toBe(2);
  platform.answer("*", { status: 404 });
  await receive({ bookingCode: "ZZ999" });
  await webhooks.drain();
  await receive({ bookingCode: "HX3K9" });
  await receive({ bookingCode: "QW2MN" });
  release();
  return { ...made, first, parked, mend: () => (state.isBroken = false) };
}

describe.skipIf(!hasChromium)("in Chromium", () => {
  // Dark pages differ from light pages only in their colors, so test dark pages at one width and with one rule.
  test.each([
    ["light", undefined],
    ["dark", ["color-contrast"]],
  ] as const)("every page is clean for axe, in %s and at 375 px", async (colorScheme, rules) => {
    const { url, parked, first } = await season();
    const pages = {
      list: "",
      filtered: "?state=parked&reason=callback&personal=1",
      none: "?ref=booking:NONE",
      event: `?event=${parked}`,
      "event-personal": `?event=${parked}&personal=1`,
      done: `?event=${first}&replayed=1&of=2`,
      record: "?record=booking:HX3K9",
      confirm: "?confirm=replay&state=parked",
      erase: "?confirm=erase&record=booking:HX3K9",
      missing: "?find=nobody",
      wrong: "?state=wrong",
    };
    // Two of the pages answer 400 and 404, which Chromium reports.
    const status = /responded with a status of 40[04]/;
    const page = await openPage({ colorScheme, viewport: { width: 1280, height: 800 } }, status);
    const small = await openPage({ colorScheme, viewport: { width: 375, height: 740 } }, status);
    for (const [name, query] of Object.entries(pages)) {
      for (const [width, each] of [
        ["wide", page],
        ["narrow", small],
      ] as const) {
        if (rules && each === small && !process.env.STAYHOOK_SCREENSHOTS) continue;
        await each.goto(`${url}/${query}`);
        expect(await overflowOf(each), `${name} ${width}`).toBeLessThanOrEqual(0);
        expect(await violationsOf(each, rules), `${name} ${width}`).toEqual([]);
        await screenshot(each, `${name}-${width}-${colorScheme}`);
      }
    }
  });

  test("forced colors show the current tab", async () => {
    const { url } = await season();
    const page = await openPage({ forcedColors: "active" });
    await page.goto(`${url}/?state=parked`);
    const outlineOf = (selector: string) =>
      page
        .locator(selector)
        .first()
        .evaluate((link) => getComputedStyle(link).outlineStyle);
    expect(await outlineOf(".tabs a[aria-current]")).toBe("solid");
    expect(await outlineOf(".tabs a:not([aria-current])")).toBe("none");
  });

  test("a support person finds out what happened to a booking, by keyboard alone", async () => {
    const { url, parked } = await season();
    const page = await openPage({ viewport: { width: 1280, height: 800 } });
    await page.goto(url);
    await page.keyboard.press("Tab");
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Skip to the content");
    await tabTo(page, "#find");
    await page.keyboard.type("hx3k9");
    await page.keyboard.press("Enter");
    await page.waitForURL("**/?record=booking%3AHX3K9");
    await tabTo(page, `#row-${parked} .main`);
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/?event=${parked}`);
    expect(await page.textContent("main")).not.toContain("lock of room 12");
    await tabTo(page, "a:has-text('Show personal data')");
    await page.keyboard.press("Enter");
    await page.waitForURL("**&personal=1");
    expect(await page.textContent("main")).toContain(
      "the calendar answered 500 <- Error: lock of room 12 timed out",
    );
  });

  test("events are selected and replayed by keyboard", async () => {
    const { url, parked, store } = await season();
    const page = await openPage();
    await page.goto(`${url}/?state=parked`);
    expect(await page.isDisabled("button[value=replay]")).toBe(true);
    await tabTo(page, `#row-${parked} input`);
    await page.keyboard.press("Space");
    expect(await page.textContent("[data-selected]")).toBe("1 selected");
    await tabTo(page, "button[value=replay]", "Shift+Tab");
    await page.keyboard.press("Enter");
    await page.waitForSelector("text=Replayed 1 event.");
    expect(await store.get(parked)).toMatchObject({ state: "pending" });
    await tabTo(page, "[data-all]");
    await page.keyboard.press("Space");
    expect(await page.textContent("[data-selected]")).toBe("1 selected");
  });

  test("a parked event is replayed, and the page shows that it is handled", async () => {
    const { url, parked, mend, webhooks } = await season();
    const page = await openPage();
    await page.goto(`${url}/?event=${parked}`);
    await screenshot(page, "before");
    mend();
    await page.click("text=Replay");
    await page.waitForSelector("text=Replayed 1 event.");
    await page.waitForSelector(".head .badge:text('pending')");
    await page.waitForSelector("[data-live-state]:text('Live')");
    await webhooks.drain();
    await page.waitForSelector(".head .badge:text('done')");
    await page.waitForSelector("li.good:has-text('Handled')");
  });

  test("new events appear while the page is open; selection and focus stay, and a hidden page rests", async () => {
    const { url, receive, parked } = await season();
    const page = await openPage();
    const asked = await askedOf(page);
    await page.goto(url);
    await page.waitForSelector("[data-live-state]:text('Live')");
    await page.check(`#row-${parked} input`);
    await page.focus(`#row-${parked} .main`);
    const added = await receive({ bookingCode: "RT8VB" });
    await page.clock.runFor(3000);
    await page.waitForSelector(`#row-${added}`);
    expect(await page.isChecked(`#row-${parked} input`)).toBe(true);
    expect(await page.evaluate(() => document.activeElement?.closest("li")?.id)).toBe(`row-${parked}`);
    expect(await page.textContent("[data-selected]")).toBe("1 selected");
    expect(await page.textContent(`#row-${added} time`)).toMatch(/now|ago/);

    await setHidden(page, true);
    await page.waitForSelector("[data-live-state]:text('Paused')");
    const unseen = await receive({ bookingCode: "RT8VB" });
    const before = (await asked()).length;
    await page.clock.runFor(60_000);
    expect((await asked()).length).toBe(before);
    expect(await page.locator(`#row-${unseen}`).count()).toBe(0);
    await setHidden(page, false);
    await page.waitForSelector(`#row-${unseen}`);
  });

  test("a page that is no longer allowed says so, and asks no more", async () => {
    let isAllowed = true;
    const { url } = await servedInboxOf({}, { authorize: () => isAllowed });
    const page = await openPage({}, /responded with a status of 403/);
    const asked = await askedOf(page);
    await page.goto(url);
    await page.waitForSelector("[data-live-state]:text('Live')");
    isAllowed = false;
    await page.clock.runFor(3000);
    await page.waitForSelector("[data-live-state]:text('Not live: load the page again')");
    const before = (await asked()).length;
    await page.clock.runFor(60_000);
    expect((await asked()).length).toBe(before);
  });

  test("a page of a store that fails says so, and recovers", async () => {
    const { url, store } = await season();
    const counts = store.counts.bind(store);
    const page = await openPage({}, /responded with a status of 503/);
    await page.clock.install();
    await page.goto(url);
    await page.waitForSelector("[data-live-state]:text('Live')");
    store.counts = async () => Promise.reject(new Error("gone"));
    await page.clock.runFor(3000);
    await page.waitForSelector("[data-live-state]:text('The store does not answer')");
    store.counts = counts;
    await page.clock.runFor(3000);
    await page.waitForSelector("[data-live-state]:text('Live')");
  });

  test("a slow store is asked less often", async () => {
    const { url, store } = await season();
    const counts = store.counts.bind(store);
    store.counts = async () => {
      await new Promise((resolve) => setTimeout(resolve, 500));
      return counts();
    };
    const page = await openPage();
    const asked = await askedOf(page);
    await page.goto(url);
    let looks: readonly number[] = [];
    while (looks.length < 3) {
      await page.clock.runFor(100);
      looks = await asked();
    }
    // Two looks take at least 500 ms each, so the third one comes 5 s after the second one, not 2 s.
    expect(looks[2]! - looks[1]!).toBeGreaterThan(4500);
  });

  test("the plots are drawn from what was counted while the page is open", async () => {
    const { url, receive } = await season();
    const page = await openPage();
    await page.clock.install();
    await page.goto(url);
    await page.waitForSelector("[data-live-state]:text('Live')");
    await receive({ bookingCode: "RT8VB" });
    await page.clock.runFor(3000);
    const line = () => page.getAttribute("#plot-received .line", "d");
    await eventually(async () => expect(await line()).toMatch(/^M[\d.]+ [\d.]+L/));
    expect(await page.textContent("#plot-received [data-value]")).toMatch(/^[\d.]+\/s$/);
    expect(await page.textContent("#plot-oldest [data-value]")).toMatch(/^\d+ s$/);
  });

  test("without JavaScript the list, an event, replay and discard work", async () => {
    const { url, parked, store } = await season();
    const page = await openPage({ javaScriptEnabled: false });
    await page.goto(`${url}/?state=parked`);
    expect(await page.isVisible(".plots")).toBe(false);
    await page.check(`#row-${parked} input`);
    await page.click("button[value=discard]");
    await page.waitForSelector("text=Discarded 1 event.");
    expect(await store.get(parked)).toMatchObject({ reason: "discarded" });
    await page.goto(`${url}/?event=${parked}`);
    await page.click("button[value=replay]");
    await page.waitForSelector("text=Replayed 1 event.");
    expect(await store.get(parked)).toMatchObject({ state: "pending" });
  });
});

/** Gives a page a clock of its own. Returns a function for the times at which the page has asked for its contents. */
async function askedOf(page: Page): Promise<() => Promise<readonly number[]>> {
  await page.clock.install();
  await page.addInitScript(() => {
    const times: number[] = [];
    const { fetch } = globalThis;
    Object.assign(globalThis, {
      asked: times,
      fetch: (...args: Parameters<typeof fetch>) => {
        times.push(performance.now());
        return fetch(...args);
      },
    });
  });
  return () => page.evaluate(() => (globalThis as unknown as { asked: number[] }).asked);
}

/** Makes a page believe that its tab is in the background, or in the foreground again. */
async function setHidden(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { value, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
}

/** Presses Tab until an element has the focus, as a user without a mouse does. */
async function tabTo(page: Page, selector: string, key = "Tab"): Promise<void> {
  for (let presses = 0; presses < 80; presses++) {
    await page.keyboard.press(key);
    const isThere = await page
      .locator(selector)
      .first()
      .evaluate((element) => element === document.activeElement);
    if (isThere) return;
  }
  throw new Error(`${selector} cannot be reached by ${key}`);
}
