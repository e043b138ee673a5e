import { toNodeHandler } from "stayhook/node";
import { describe, expect, test } from "vitest";
import { hasChromium, openPage, overflowOf, screenshot, violationsOf } from "./chromium.ts";
import { inboxOf, serve } from "./support.ts";

/** A served console with events in every state but one. The callback fails while `state.isBroken`. */
async function season() {
  const state = { isBroken: true };
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const made = inboxOf({
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
  for (let round = 0; round < 6; round++) await webhooks.drain();
  platform.answer("*", { status: 404 });
  await receive({ bookingCode: "ZZ999" });
  await webhooks.drain();
  await receive({ bookingCode: "HX3K9" });
  await receive({ bookingCode: "QW2MN" });
  const url = await serve(toNodeHandler(made.inbox));
  release();
  return { ...made, url, first, parked, mend: () => (state.isBroken = false) };
}

describe.skipIf(!hasChromium)("in Chromium", { timeout: 60_000 }, () => {
  test.each(["light", "dark"] as const)(
    "every page is clean for axe, in %s and at 375 px",
    async (colorScheme) => {
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
      const page = await openPage({
        colorScheme,
        viewport: { width: 1280, height: 800 },
        ignoreHTTPSErrors: false,
      });
      const small = await openPage({ colorScheme, viewport: { width: 375, height: 740 } });
      for (const [name, query] of Object.entries(pages)) {
        for (const [width, each] of [
          ["wide", page],
          ["narrow", small],
        ] as const) {
          // Chromium reports a page's own 400 and 404 as an error.
          const isFine = name !== "missing" && name !== "wrong";
          if (!isFine) continue;
          await each.goto(`${url}/${query}`);
          expect(await overflowOf(each), `${name} ${width}`).toBeLessThanOrEqual(0);
          expect(await violationsOf(each), `${name} ${width}`).toEqual([]);
          await screenshot(each, `${name}-${width}-${colorScheme}`);
        }
      }
    },
  );
});
