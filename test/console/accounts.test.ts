import type { StoredEvent } from "stayhook/store";
import { expect, test } from "vitest";
import { causeOf } from "../../src/console/cause-key.ts";
import { incident } from "./incident.ts";
import { Browser, decodeEntities } from "./support.ts";

const plain = (text: string) => text.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");

/** Serves the console after an incident in three accounts, and makes a browser. */
async function served() {
  const made = await incident();
  const browser = new Browser();
  const get = (query: string) => browser.get(`${made.url}/${query}`);
  return { ...made, browser, get };
}

test("a code is found without its account, with it, in another case, and in the account of the filter", async () => {
  const { get } = await served();
  for (const text of ["CAL1", "cal1", "b7/CAL1", "b7/cal1", "b7/booking:CAL1", "booking:cal1"]) {
    const found = await get(`?find=${encodeURIComponent(text)}`);
    expect(found.url, text).toContain("record=b7%2Fbooking%3ACAL1");
    expect(plain(found.text), text).toMatch(/booking\.Cancelled b7\/booking:CAL1 callback/);
  }
  expect((await get("?find=CAL1&account=b7")).url).toContain("record=b7%2Fbooking%3ACAL1&account=b7");
  expect((await get("?find=a17/CAL1")).status).toBe(404);
  expect((await get("?find=NONE1")).status).toBe(404);
  const filtered = await get("?account=b7&ref=cal1");
  expect(filtered.url).toContain("ref=b7%2Fbooking%3ACAL1");
  expect(filtered.text.match(/id="row-/g)).toHaveLength(2);
});

test("a code of two accounts leads to a choice", async () => {
  const { get, receive } = await served();
  await receive("c3", "CAL1");
  const { status, text } = await get("?find=cal1");
  expect(status).toBe(200);
  expect(plain(text)).toMatch(/Several records match “cal1” c3\/booking:CAL1 b7\/booking:CAL1/);
  expect((await get("?find=cal1&account=c3")).url).toContain("record=c3%2Fbooking%3ACAL1&account=c3");
});

test("the causes, the search for an error and the words of a question know the account of the filter", async () => {
  const { get, browser, url, store } = await served();
  expect(plain((await get("?state=parked&account=b7")).text)).toMatch(
    /Causes \d+ × callback Error .* 13 bookings in account b7, .* 12 × denied .* 12 bookings in account b7, /,
  );
  const question = "?account=b7&error=calendar&confirm=replay";
  expect(plain((await get(question)).text)).toMatch(
    /Replay (\d+) events\? The filter is: account b7, error contains “calendar” . These events touch 13 bookings in account b7\. \1 parked/,
  );
  const before = (await store.counts()).parked;
  await browser.submit(`${url}/${question}`, "replay");
  expect(await store.counts()).toMatchObject({ parked: before - 15, pending: 15 });
  for (const { ref } of await store.list({ state: "pending", limit: 20 })) expect(ref).toMatch(/^b7\//);
});

test("an event whose type is not known yet has no account in its name", async () => {
  const { get } = await served();
  const { text } = await get("?state=parked&reason=denied");
  const event = decodeEntities(/href="(\?event=[^"]*)"/.exec(text)?.[1] ?? "");
  expect(plain((await get(event)).text)).toContain("/ b7/");
  expect((await get(event)).text).toContain("<h1>booking, type not known yet</h1>");
});

test("errors that differ only in the account and the code have one cause", () => {
  const failed = (ref: string, error: string) =>
    causeOf({
      ref,
      eventId: `${ref.split("/")[0]}/event-1`,
      reason: "callback",
      history: [{ at: new Date(), duration: 1, outcome: "parked", error }],
    } as unknown as StoredEvent);
  const one = failed("a17/booking:HX.1", "Error: a17 has no room for HX.1 (a17-b)\n    at save (/a.js:1:1)");
  expect(failed("b7/booking:ZZ9", "Error: b7 has no room for ZZ9 (b7-b) <- Error: full")).toBe(one);
  // A part of a word is no code, and a dot in a code is no pattern.
  expect(failed("b7/booking:ro", "Error: b7 has no room for ro (b7-b)")).toBe(one);
  expect(failed("b7/booking:HX.1", "Error: b7 has no room for HXa1 (b7-b)")).not.toBe(one);
});
