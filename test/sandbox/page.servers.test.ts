import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { createSandbox, type SandboxOptions } from "../../src/testing/index.ts";
import { hasChromium, openPage, overflowOf, screenshot, violationsOf } from "../console/chromium.ts";
import { Browser } from "../console/support.ts";

const hooks = "https://subscriber.example/hooks?key=s3cret";
const hostile = `<script>alert("x")</script>' \u202e`;

/** Makes a sandbox that listens. Its endpoints for bookings and listings answer 200. */
async function start(options: SandboxOptions = {}, host?: string) {
  const sandbox = createSandbox({ seed: 7, ...options });
  onTestFinished(() => sandbox.close());
  sandbox.deliverTo(() => new Response());
  const { url } = await sandbox.listen({ host });
  const body = JSON.stringify({ isActive: true, endpoints: { bookings: hooks, listings: hooks } });
  const headers = { authorization: `Bearer ${sandbox.accessToken}` };
  await fetch(`${url}/v2/webhooks/config`, { method: "POST", headers, body });
  const browser = new Browser();
  /** Presses a button of the page, with these values in its form. */
  const press = (button: string, fields: Record<string, string> = {}) =>
    browser.submit(url, button, Object.entries(fields));
  return { sandbox, url, browser, press };
}

/** A pressed button, a part of the page that follows, and a part of the sandbox afterwards. */
type Step = readonly [button: string, fields: Record<string, string>, text: string, after: object];

const chosen = { bookingCode: "HX3K9", listingId: "7", checkIn: "2030-07-01", checkOut: "2030-07-04" };
const nights = { checkIn: "2030-07-01", checkOut: "2030-07-09" };
const deliver = {
  duplicates: "2",
  drop: "12.5",
  delay: "10",
  timeout: "50",
  retry: "1000, 5000",
  shuffle: "on",
};
const delivery = { duplicates: 2, drop: 0.125, delay: 10, timeout: 50, retry: { schedule: [1000, 5000] } };
const usual = { duplicates: 0, drop: 0, delay: 0, timeout: 30_000, shuffle: false, retry: { schedule: [] } };
const route = "GET /v2/listings";
const fault = { route, status: 503, rate: 0.3, times: 5, cutOff: true };

const scripts: Readonly<Record<string, readonly Step[]>> = {
  "make bookings with chosen fields": [
    [
      "request",
      chosen,
      "Booking HX3K9 is Request.",
      { bookings: [{ ...chosen, listingId: 7 }], listings: [] },
    ],
    ["approve", {}, "Booking HX3K9 is Confirmed.", { bookings: [{ status: "Confirmed" }] }],
    ["alter", nights, "check-out 2030-07-09", { bookings: [nights], deliveries: [{}, {}, { status: 200 }] }],
    ["cancel", {}, "Booking HX3K9 is Cancelled.", { bookings: [{ status: "Cancelled" }] }],
  ],
  "make a listing for the first booking only": [
    ["request", { bookingCode: "", checkIn: "" }, "was made for it", { listings: [{ status: "Published" }] }],
    ["decline", {}, "is Declined.", { bookings: [{ status: "Declined" }] }],
    ["book", {}, "is Confirmed.", { listings: [{}], deliveries: [{}, {}, { topic: "bookings" }] }],
  ],
  "submit, publish and hide a listing": [
    ["submit", {}, "is InReview.", { listings: [{ status: "InReview" }] }],
    ["publish", {}, "is Published.", { listings: [{ status: "Published" }] }],
    ["hide", {}, "is Hidden.", { listings: [{ status: "Hidden" }] }],
  ],
  "resend an event": [
    ["book", {}, "is Confirmed.", { deliveries: [{ duplicate: false }] }],
    ["redeliver", {}, "again", { deliveries: [{}, { duplicate: true, status: 200 }] }],
  ],
  "duplicate and drop later notifications, until they are pressed again": [
    ["duplicate", {}, 'value="duplicate" aria-pressed="true"', { delivery: { duplicates: 1 } }],
    ["duplicate", {}, 'value="duplicate" aria-pressed="false"', { delivery: { duplicates: 0 } }],
    ["drop", {}, 'value="drop" aria-pressed="true"', { delivery: { drop: 1 } }],
    ["drop", {}, 'value="drop" aria-pressed="false"', { delivery: { drop: 0 } }],
  ],
  "set and reset the delivery options": [
    ["deliver", deliver, "will apply", { delivery: { ...delivery, shuffle: true } }],
    ["normal", {}, "once, without delay", { delivery: usual }],
  ],
  "advance the clock": [
    ["deliver", { delay: "3600000" }, "will apply", {}],
    ["book", {}, "is Confirmed.", { deliveries: [] }],
    ["advance", { minutes: "60" }, "has moved ahead by 60 min", { deliveries: [{ status: 200 }] }],
  ],
  "switch faults on and off": [
    ["fault", { route, rate: "30", times: "5", cutOff: "on" }, "will get this fault", { faults: [fault] }],
    ["fault", {}, "all requests", { faults: [fault, { status: 503 }] }],
    ["end-fault", {}, "was removed", { faults: [{ status: 503 }] }],
    ["heal", {}, "One fault ended", { faults: [] }],
  ],
};

describe("buttons", () => {
  it.each(Object.entries(scripts))("%s", async (_, steps) => {
    const { sandbox, press } = await start();
    for (const [button, fields, text, after] of steps) {
      expect((await press(button, fields)).text).toContain(text);
      // A delivery that is not delayed ends in a moment.
      await sandbox.advance(0);
      const { bookings, listings, deliveries, faults } = sandbox;
      expect({
        ...{ bookings: bookings.list(), listings: listings.list(), deliveries },
        ...{ delivery: sandbox.delivery.current, faults: faults.list() },
      }).toMatchObject(after);
    }
  });

  it.each([
    ["Request", ["approve", "decline", "cancel", "alter"]],
    ["Confirmed", ["cancel", "alter"]],
    ["Cancelled", ["alter"]],
  ])("offer what can happen to a booking in %s", async (status, offered) => {
    const { sandbox, url, browser } = await start();
    await sandbox.bookings.create({ status, bookingCode: "B1" });
    const { text } = await browser.get(url);
    const shown = ["approve", "decline", "cancel", "alter"].filter((verb) =>
      text.includes(`value="${verb}"`),
    );
    expect(shown).toEqual(offered);
  });

  it.each([
    ["alter", { booking: "NONE", checkIn: "2030-07-01" }, "there is no booking NONE"],
    ["request", { bookingCode: "B1" }, "there is already a booking B1"],
    ["approve", { booking: "B1" }, "cannot approve booking B1, which is Confirmed"],
    ["redeliver", { event: "none" }, "there was no delivery of event none"],
    ["fault", { status: "200" }, "must be a status from 300 to 599"],
    ["deliver", { drop: "120" }, "drop: must be from 0 to 1"],
    ["advance", { minutes: "-1" }, "must be a number of ms"],
    ["explode", {}, "the page has no such button"],
  ])("say why %s with %j is impossible", async (button, fields, message) => {
    const { sandbox, url, browser } = await start();
    await sandbox.bookings.create({ status: "Confirmed", bookingCode: "B1" });
    const { text } = await browser.get(url);
    const csrf = /name="csrf" value="(\w+)"/.exec(text)?.[1] as string;
    const answer = await browser.post(url, { csrf, do: button, ...fields });
    expect(answer.status).toBe(400);
    expect(answer.text).toContain(message);
    expect(sandbox.bookings.list()).toMatchObject([{ status: "Confirmed" }]);
  });
});

describe("the page", () => {
  it("shows each delivery with its answer, its time and its event, and no secret", async () => {
    const { sandbox, url, browser } = await start({ delivery: { retry: { schedule: [0] } } });
    sandbox.deliverTo(() => new Response(null, { status: sandbox.deliveries.length > 1 ? 200 : 503 }));
    await sandbox.bookings.request({ bookingCode: "HX3K9" });
    await sandbox.settled();
    sandbox.delivery.set({ drop: 1 });
    await sandbox.bookings.cancel("HX3K9");
    await sandbox.settled();
    const { text } = await browser.get(url);
    for (const answer of [">503<", ">200<", ">dropped<", "attempt 2", " ms<"]) expect(text).toContain(answer);
    expect(text).not.toContain("s3cret");
    const [, query = ""] = /href="(\?event=[^"]+)"/.exec(text) ?? [];
    const event = await browser.get(url + query);
    expect(event.text).toContain("&quot;bookingCode&quot;: &quot;HX3K9&quot;");
    expect(event.text).not.toContain("s3cret");
    expect((await browser.get(`${url}?event=none`)).status).toBe(404);
  });

  it("escapes text from outside, and loads nothing from elsewhere", async () => {
    const { sandbox, url, browser } = await start();
    await sandbox.bookings.create({ bookingCode: `${hostile}\ud800`, status: hostile, checkIn: hostile });
    await sandbox.listings.create({ listingName: hostile, status: hostile });
    await sandbox.send({ eventId: hostile, bookingCode: hostile }, { topic: "bookings" });
    await sandbox.send(hostile, { topic: "bookings" });
    for (const query of ["", `?event=${encodeURIComponent(hostile)}`]) {
      const { status, text, headers } = await browser.get(url + query);
      expect(status).toBe(200);
      expect(text).toContain("&lt;script&gt;");
      expect(text).not.toMatch(/<script>|\u202e/);
      expect(text.match(/\s(?:src|href|action)="(?!\?)[^"]*"/g) ?? []).toEqual([' href="#main"']);
      expect(headers.get("content-security-policy")).toContain("default-src 'none'; script-src 'self'");
    }
  });

  it("says that there is no configuration", async () => {
    const sandbox = createSandbox();
    onTestFinished(() => sandbox.close());
    const { url } = await sandbox.listen();
    expect((await new Browser().get(url)).text).toContain("There is no webhook configuration yet");
  });

  it("tells an open page what has happened", async () => {
    const { sandbox, url } = await start();
    const body = async () => ((await (await fetch(`${url}?live=1`)).json()) as { body: string }).body;
    expect(await body()).toContain("No deliveries yet.");
    await sandbox.bookings.request({ bookingCode: "HX3K9" });
    await sandbox.settled();
    expect(await body()).toContain("Booking HX3K9");
  });
});

describe("guards", () => {
  // test/console/http.test.ts has each form that the guard of both pages refuses.
  it("refuse a form without the page's token", async () => {
    const { sandbox, url, browser, press } = await start();
    await browser.get(url);
    expect((await browser.post(url, { do: "request" })).status).toBe(403);
    expect(sandbox.bookings.list()).toEqual([]);
    expect((await press("request")).status).toBe(200);
    expect(sandbox.bookings.list()).toHaveLength(1);
  });

  it("ask for the access token beyond loopback", async () => {
    const { sandbox, url } = await start({ accessToken: "my:token" }, "0.0.0.0");
    const basic = (password: string) => `Basic ${btoa(`any:${password}`)}`;
    for (const query of ["", "?live=1", "?asset=style.css", "?event=x"])
      for (const authorization of [undefined, basic("other"), "Bearer other", "Basic %"]) {
        const headers = authorization === undefined ? {} : { authorization };
        const { status, headers: answered, text } = await new Browser().get(url + query, headers);
        expect(status).toBe(401);
        expect(answered.get("www-authenticate")).toMatch(/^Basic /);
        expect(text).toContain("access token");
      }
    expect((await new Browser().post(url, { do: "request" })).status).toBe(401);
    expect(sandbox.bookings.list()).toEqual([]);
    for (const authorization of [basic("my:token"), "Bearer my:token"])
      expect((await new Browser().get(url, { authorization })).status).toBe(200);
  });
});

/** Makes a sandbox and runs many actions on it, so that its page shows every kind of row. */
async function season() {
  const made = await start({ delivery: { retry: { schedule: [300, 900] } } });
  const { sandbox } = made;
  let count = 0;
  sandbox.deliverTo(async () => {
    await new Promise((resolve) => setTimeout(resolve, 15 + ((++count * 37) % 90)));
    return new Response(null, { status: count % 5 === 4 ? 503 : 200 });
  });
  await sandbox.listings.create({ status: "Published", listingId: 5717008, listingName: "Harbour Loft" });
  await sandbox.listings.submit({ listingId: 5717009, listingName: "Old Mill Cottage" });
  const stay = { checkIn: "2027-01-27", checkOut: "2027-01-31", listingId: 5717008 };
  for (const bookingCode of ["HX3K9", "QW7TA", "M2RPD", "K8UFE"])
    await sandbox.bookings.request({ bookingCode, ...stay });
  await sandbox.settled();
  await sandbox.bookings.approve("HX3K9");
  await sandbox.bookings.decline("QW7TA");
  await sandbox.bookings.approve("M2RPD");
  await sandbox.listings.publish(5717009);
  await sandbox.settled();
  sandbox.delivery.set({ drop: 1 });
  await sandbox.bookings.cancel("M2RPD");
  sandbox.delivery.set({ drop: 0 });
  const headers = { authorization: "Bearer sandbox-token" };
  sandbox.faults.set([
    { route: "GET /v2/bookings/{bookingCode}", status: 503, rate: 0.3, times: 5 },
    { delay: 3000, route: "GET /v2/listings" },
  ]);
  for (const code of ["HX3K9", "QW7TA", "M2RPD", "HX3K9"])
    await (await fetch(`${made.url}/v2/bookings/${code}`, { headers })).text();
  await sandbox.settled();
  return made;
}

describe.skipIf(!hasChromium)("in Chromium", () => {
  // The dark page differs from the light page only in its colors, so test it at one width and with one rule.
  it.each([
    ["light", [1280, 375], undefined],
    ["dark", [1280], ["color-contrast"]],
  ] as const)("is clean for axe, in %s, at %j px", async (colorScheme, widths, rules) => {
    const { sandbox, url } = await season();
    const { eventId = "" } = sandbox.deliveries.find(({ attempt }) => attempt > 1) ?? {};
    for (const width of widths) {
      const page = await openPage({ colorScheme, viewport: { width, height: 850 } });
      for (const [name, query] of Object.entries({ platform: "", event: `?event=${eventId}` })) {
        await page.goto(url + query);
        await page.locator("[data-live-state][data-state=on]").waitFor();
        for (const summary of await page.locator("summary").all()) await summary.click();
        expect(await violationsOf(page, rules)).toEqual([]);
        expect(await overflowOf(page)).toBe(0);
        await screenshot(page, `sandbox-${name}-${colorScheme}-${width}`);
      }
    }
  });

  it.each([1280, 375])("leaves a gap between its cards, empty or full, at %i px", async (width) => {
    const empty = await start();
    const full = await season();
    const page = await openPage({ viewport: { width, height: 850 } });
    for (const [name, { url }] of Object.entries({ empty, full })) {
      await page.goto(url);
      await page.locator("[data-live-state][data-state=on]").waitFor();
      const boxes = await page.locator("main .card, main .list").evaluateAll((cards) =>
        cards.map((card) => {
          const { top, bottom, left, right } = card.getBoundingClientRect();
          return { top, bottom, left, right };
        }),
      );
      expect(boxes.length).toBeGreaterThanOrEqual(8);
      for (const [index, one] of boxes.entries()) {
        const next = boxes[index + 1];
        if (next?.left === one.left) expect(next.top - one.bottom, name).toBeCloseTo(16, 0);
        // At 1,280 px, the cards of the right column are beside those of the left one.
        for (const other of boxes.slice(index + 1))
          expect(Math.max(other.top - one.bottom, other.left - one.right), name).toBeGreaterThan(15);
      }
      await screenshot(page, `sandbox-gaps-${name}-${width}`);
    }
  });

  it("shows a delivery as it happens, without the focus, too, and keeps what is being typed", async () => {
    const { sandbox, url } = await season();
    const page = await openPage();
    await page.goto(url);
    await page.getByLabel("Alter booking K8UFE").first().click();
    const checkOut = page.locator("#booking-K8UFE").getByLabel("Check-out");
    await checkOut.fill("2027-02-03");
    await page.evaluate(() => dispatchEvent(new Event("blur")));
    await sandbox.bookings.request({ bookingCode: "NEW42" });
    await page.locator("#booking-NEW42").waitFor();
    expect(await checkOut.inputValue()).toBe("2027-02-03");
    await page.locator("#booking-K8UFE").getByRole("button", { name: "Save" }).click();
    const altered = "Booking K8UFE now has check-in 2027-01-27 and check-out 2027-02-03.";
    await page.getByRole("status").getByText(altered).waitFor();
    expect(sandbox.bookings.get("K8UFE")).toMatchObject({ checkOut: "2027-02-03" });
  });

  it("is used by the keyboard alone, and stays where it is", async () => {
    const { sandbox, url } = await season();
    const page = await openPage({ viewport: { width: 1280, height: 400 } });
    await page.goto(url);
    const approve = page.getByRole("button", { name: "Approve booking K8UFE" });
    for (let count = 0; count < 40; count++) {
      await page.keyboard.press("Tab");
      if (await approve.evaluate((button) => button === document.activeElement)) break;
    }
    const scrolled = await page.evaluate(() => scrollY);
    await page.keyboard.press("Enter");
    await page.getByRole("status").getByText("Booking K8UFE is Confirmed.").waitFor();
    expect(sandbox.bookings.get("K8UFE")?.status).toBe("Confirmed");
    expect(await page.evaluate(() => scrollY)).toBe(scrolled);
    expect(await page.evaluate(() => performance.getEntriesByType("navigation").length)).toBe(1);
  });

  it("is in docs/images/sandbox.png", async () => {
    const file = join(import.meta.dirname, "../../docs/images/sandbox.png");
    if (process.env.STAYHOOK_UPDATE_IMAGES === "1") {
      const { url } = await season();
      const page = await openPage({ viewport: { width: 1100, height: 700 } });
      await page.goto(url);
      await page.locator("[data-live-state][data-state=on]").waitFor();
      writeFileSync(file, await page.screenshot());
    }
    expect(readFileSync(file).subarray(1, 4).toString()).toBe("PNG");
    expect(statSync(file).size).toBeLessThan(150_000);
  });
});
