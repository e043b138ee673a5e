import type { ClaimedEvent } from "stayhook/store";
import { describe, expect, test, vi } from "vitest";
import { eventOf } from "../stores/event.ts";
import { eventually } from "../support/eventually.ts";
import { decodeEntities, type inboxOf, servedInboxOf } from "./support.ts";

/** Serves a console. The callback of a Cancelled booking fails while `state.isBroken`. */
async function served(options: Parameters<typeof inboxOf>[0] = {}) {
  const state = { isBroken: true };
  const made = await servedInboxOf({
    on: {
      "booking.Cancelled": () => {
        if (state.isBroken) throw new Error("the calendar is closed");
      },
    },
    maxAttempts: 1,
    ...options,
  });
  const page = async (query: string) => (await made.browser.get(`${made.url}/${query}`)).text;
  /** Returns the ids of the events on a page. */
  const listed = async (query: string) => idsIn(await page(query));
  return { ...made, page, listed, mend: () => (state.isBroken = false) };
}

const idsIn = (text: string) => [...text.matchAll(/id="row-([\w-]+)"/g)].map(([, eventId]) => eventId ?? "");
const plain = (text: string) => text.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");

/** The fields of the form of a page that asks for confirmation. */
const confirmedOf = (text: string) => [
  ...[...text.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)].map(
    ([, name = "", value = ""]) => [name, decodeEntities(value)],
  ),
  ["do", /<button[^>]*name="do" value="(\w+)"/.exec(text)?.[1] ?? ""],
];

describe("the list", () => {
  test("has the events newest first, and how many there are in each state", async () => {
    const { handle, receive, page, listed } = await served();
    const done = await handle("FINE", "Confirmed");
    const parked = await handle("BAD", "Cancelled");
    const pending = await receive({ bookingCode: "NEW" });
    expect(await listed("")).toEqual([pending, parked, done]);
    expect(plain(await page(""))).toContain(
      "All 3 Scheduled 0 Pending 1 Processing 0 Retrying 0 Parked 1 Done 1",
    );
    expect(plain(await page(""))).toMatch(/parked booking\.Cancelled booking:BAD callback/);
  });

  test("shows the first line of an error, without what may have personal data", async () => {
    const { handle, receive, platform, webhooks, page } = await served();
    await handle("BAD", "Cancelled");
    const callback = plain(await page(""));
    expect(callback).toMatch(/booking:BAD callback .* Error /);
    expect(callback).not.toContain("the calendar is closed");
    expect(plain(await page("?personal=1"))).toContain("Error: the calendar is closed");
    platform.answer("LOST", { status: 403, body: { message: "not for Ann Lee" } });
    const eventId = await receive({ bookingCode: "LOST" });
    await webhooks.drain();
    // The store has no words of the platform, so nothing is hidden.
    for (const query of ["", "?personal=1", `?event=${eventId}`, `?event=${eventId}&personal=1`]) {
      const platformError = plain(await page(query));
      expect(platformError).toContain("PermissionDeniedError: GET /v2/bookings/LOST was answered with 403 ");
      expect(platformError).not.toContain("Ann Lee");
    }
    expect(plain(await page(`?event=${eventId}`))).not.toContain("of the error is hidden");
  });

  // test/console/event-filter.test.ts has each form that the value of a field may have.
  test("is filtered by the query, field by field", async () => {
    const { handle, listed } = await served();
    const done = await handle("FINE", "Confirmed");
    const parked = await handle("BAD", "Cancelled");
    for (const [query, expected] of [
      ["?state=parked", [parked]],
      ["?ref=BAD", [parked]],
      ["?ref=&state=&type=", [parked, done]],
      ["?type=booking.Confirmed", [done]],
      ["?reason=callback", [parked]],
      ["?source=webhook&state=done", [done]],
      ["?source=reconcile", []],
      ["?receivedAfter=1h&receivedBefore=2030-01-01", [parked, done]],
      ["?receivedBefore=1h", []],
    ] as const)
      expect(await listed(query), query).toEqual(expected);
  });

  test("refuses a wrong filter, which then changes nothing", async () => {
    const { url, browser, receive, store } = await served();
    await receive({ bookingCode: "NEW" });
    const { status, text } = await browser.get(`${url}/?state=prked`);
    expect({ status, ids: idsIn(text) }).toEqual({ status: 400, ids: [] });
    const csrf = browser.cookies.get("stayhook-csrf") ?? "";
    const fields = { csrf, do: "discard", all: "1", state: "prked" };
    expect((await browser.post(url, fields)).status).toBe(400);
    expect(await store.counts()).toMatchObject({ pending: 1 });
  });

  test("goes on with older events, and keeps the filter", async () => {
    const { receive, url, browser, listed } = await served();
    const ids: string[] = [];
    for (let n = 0; n < 120; n++) ids.unshift(await receive({ bookingCode: "MANY" }));
    const pages: string[][] = [];
    let query: string | undefined = "?ref=booking:MANY";
    while (query !== undefined && pages.length < 5) {
      const { text } = await browser.get(`${url}/${query}`);
      pages.push(idsIn(text));
      query = /rel="next" href="([^"]*)"/.exec(text)?.[1]?.replaceAll("&amp;", "&");
      if (query !== undefined) expect(query).toContain("ref=booking%3AMANY");
    }
    expect(pages.map(({ length }) => length)).toEqual([50, 50, 20]);
    expect(pages.flat()).toEqual(ids);
    expect(await listed("?after=unknown")).toEqual([]);
  });
});

describe("the filter by the text of an error", () => {
  /** Parked events of two errors, and one that waits for a retry. */
  async function failed(options: Parameters<typeof inboxOf>[0] = {}) {
    const on = {
      booking: ({ booking }: { booking: { bookingCode: string; status: string } }) => {
        if (booking.status === "Confirmed") return;
        throw new Error(booking.bookingCode.startsWith("T") ? "Lock 12 timed out" : "no room for Ann Lee");
      },
    };
    const made = await served({ on, ...options });
    const timedOut = [await made.handle("T1", "Cancelled"), await made.handle("T2", "Cancelled")];
    const full = await made.handle("FULL", "Cancelled");
    const done = await made.handle("FINE", "Confirmed");
    return { ...made, timedOut, full, done };
  }

  test("finds the events whose last error has the text, in any case, beside the rest of the filter", async () => {
    const { listed, page, timedOut, full } = await failed();
    expect(await listed("?error=TIMED+out")).toEqual(timedOut.toReversed());
    expect(await listed("?state=parked&error=+room+&reason=callback")).toEqual([full]);
    expect(await listed("?state=done&error=room")).toEqual([]);
    // A search finds what the page hides, so that the set does not depend on who looks.
    const hidden = await page("?error=Ann+Lee");
    expect(hidden).not.toContain("no room");
    expect(plain(hidden)).toContain("The search also reads the parts of errors that are hidden");
    expect(plain(hidden)).toMatch(
      /callback parked [\d-]+ [\d:]+ UTC Error at booking \(\S+inbox\.test\.ts:\d+:\d+\)/,
    );
    expect(plain(await page("?error=Ann+Lee&personal=1"))).not.toContain("The search also reads");
    expect(plain(hidden)).toContain("These numbers count all events");
    expect(plain(await page("?state=parked"))).not.toContain("These numbers count");
    expect(plain(await page("?state=parked&error=room"))).toMatch(/Causes 1 × callback/);
    expect(await page("?error=room")).toContain('name="error" value="room"');
    for (const link of ["?state=parked&amp;error=room", "?error=room&amp;confirm=replay"])
      expect(await page("?error=room"), link).toContain(link);
  });

  test("replays and discards these events alone, after their number, records and words are shown", async () => {
    const { browser, url, store, full } = await failed();
    const question = `${url}/?error=timed+out&confirm=replay`;
    expect(plain((await browser.get(question)).text)).toMatch(
      /Replay 2 events\? The filter is: error contains “timed out” . These events touch 2 bookings. 2 parked/,
    );
    const replayed = await browser.submit(question, "replay");
    expect(plain(replayed.text)).toContain("Replayed 2 events.");
    expect(replayed.url).toContain("error=timed+out");
    expect(await store.counts()).toMatchObject({ pending: 2, parked: 1 });
    const discarded = await browser.submit(`${url}/?state=parked&error=room&confirm=discard`, "discard");
    expect(plain(discarded.text)).toContain("Discarded 1 event.");
    expect(await store.get(full)).toMatchObject({ state: "done", reason: "discarded" });
  });

  test("goes on where a page of results or the search of 10,000 events ends, and says so", async () => {
    const { store, page, listed } = await failed();
    const list = store.list.bind(store);
    for (let n = 0; n < 10_000; n++) await store.add(eventOf(null, `event-${n}`));
    const lists = vi.spyOn(store, "list").mockImplementation(list);
    const text = await page("?error=timed+out");
    expect(lists.mock.calls.length).toBeLessThan(13);
    expect(idsIn(text)).toEqual([]);
    expect(plain(text)).toContain(
      "You see what is in 10,000 events, those of the filter that were received last. For older ones, set a state or a time",
    );
    const next = decodeEntities(/rel="next" href="([^"]*)"/.exec(text)?.[1] ?? "");
    expect(plain(text)).toContain("Search older events");
    expect(await listed(next)).toHaveLength(2);
    expect(plain(await page("?error=timed+out&confirm=replay"))).toContain(
      "Only the newest 10,000 events were searched. Older ones do not change.",
    );
  });

  test("lists more than one page of results", async () => {
    const { handle, browser, url } = await served();
    const ids: string[] = [];
    for (let n = 0; n < 60; n++) ids.unshift(await handle(`BAD${n}`, "Cancelled"));
    const { text } = await browser.get(`${url}/?error=closed`);
    const next = decodeEntities(/rel="next" href="([^"]*)"/.exec(text)?.[1] ?? "");
    expect([...idsIn(text), ...idsIn((await browser.get(`${url}/${next}`)).text)]).toEqual(ids);
  });
});

describe("the way back", () => {
  const filter = "state=parked&reason=callback&error=calendar";

  test("every page leads back to the list with its filter, and keeps the choice to show personal data", async () => {
    const { handle, page } = await served();
    const eventId = await handle("BAD", "Cancelled");
    const list = await page(`?${filter}&personal=1`);
    const hrefs = (text: string) =>
      [...text.matchAll(/href="(\?[^"]*)"/g)].map(([, to = ""]) => decodeEntities(to));
    const of = (text: string, name: string) => hrefs(text).find((to) => to.startsWith(`?${name}=`)) ?? name;
    const event = await page(of(list, "event"));
    expect(event).toContain(`<span class="mono">${eventId}</span>`);
    const record = await page(of(event, "record"));
    const question = await page(of(record, "confirm"));
    for (const text of [event, record, question])
      expect(hrefs(text).filter((to) => to === `?${filter}&personal=1`).length, text).toBeGreaterThan(0);
    // Only the assets and the link that hides personal data lead elsewhere.
    const others = [...hrefs(list), ...hrefs(event), ...hrefs(record)].filter(
      (to) => !to.includes("personal=1"),
    );
    expect(others.filter((to) => !to.startsWith("?asset=") && !/^\?(state|event|record)=/.test(to))).toEqual(
      [],
    );
    expect(plain(event)).toContain("Error: the calendar is closed");
  });

  test("a form and the search keep it, too", async () => {
    const { handle, browser, url } = await served();
    const eventId = await handle("BAD", "Cancelled");
    const kept = `${filter}&personal=1`;
    const replayed = await browser.submit(`${url}/?event=${eventId}&${kept}`, "discard");
    expect(replayed.url).toContain(`?event=${eventId}&${kept}`);
    const found = await browser.get(`${url}/?find=bad&${kept}`);
    expect(found.url).toContain(`?record=booking%3ABAD&${kept}`);
    expect(found.text).toContain('name="reason" value="callback"');
    const erased = await browser.submit(`${url}/?confirm=erase&record=booking:BAD&${kept}`, "erase");
    expect(erased.url).toContain(`erased=1&${kept}`);
  });
});

test("a code in another case is found in the filter, too", async () => {
  const { handle, browser, url } = await served();
  const eventId = await handle("HXRUK9", "Confirmed");
  const found = await browser.get(`${url}/?ref=hxruk9&state=done`);
  expect(idsIn(found.text)).toEqual([eventId]);
  expect(found.url).toContain("?state=done&ref=booking%3AHXRUK9");
  expect(idsIn((await browser.get(`${url}/?ref=hxruk8`)).text)).toEqual([]);
});

test("a replay is a step of the timeline", async () => {
  const { handle, webhooks, browser, url, page, mend } = await served();
  const eventId = await handle("BAD", "Cancelled");
  const before = plain(await page(`?event=${eventId}`));
  expect(before).toContain("Timeline Parked until somebody replays or discards the event");
  expect(before).not.toMatch(/ Replayed /);
  await browser.submit(`${url}/?event=${eventId}`, "replay");
  expect(plain(await page(`?event=${eventId}`))).toMatch(
    /Timeline Waiting\. .* Replayed Attempt failed, and the event was parked/,
  );
  mend();
  await webhooks.drain();
  expect(plain(await page(`?event=${eventId}`))).toMatch(
    /Timeline Handled .* Replayed Attempt failed, and the event was parked/,
  );
});

test("what a colleague has discarded since the question is not replayed before the user is asked again", async () => {
  const { handle, browser, url, store } = await served();
  const [first, second] = [await handle("BAD", "Cancelled"), await handle("WORSE", "Cancelled")];
  const question = "?source=webhook&confirm=replay";
  const asked = await browser.get(`${url}/${question}`);
  await store.discard({ eventId: first });
  const again = await browser.post(`${url}/${question}`, confirmedOf(asked.text));
  expect(plain(again.text)).toContain(
    "Nothing was replayed. Since you opened the page, somebody has discarded 1 event",
  );
  expect(plain(again.text)).toContain("1 parked 1 done, 1 of them discarded");
  expect(await store.counts()).toMatchObject({ parked: 1, done: 1 });
  await browser.post(again.url, confirmedOf(again.text));
  expect(await store.counts()).toMatchObject({ pending: 2 });
  expect(await store.get(second)).toMatchObject({ state: "pending" });
});

describe("an event", () => {
  test("has no row for a field that it does not have", async () => {
    const { handle, page } = await served();
    const text = await page(`?event=${await handle("FINE", "Confirmed")}`);
    expect(text).toMatch(/<dt>record</);
    expect(text).not.toMatch(/<dt>(trace|topic|reason)</);
  });

  test("has its timeline, its notification, its record's snapshot and the other events of the record", async () => {
    const { platform, receive, handle, webhooks, page } = await served({
      maxAttempts: 3,
      backoff: () => 3_600_000,
    });
    platform.booking("HX3K9", "Confirmed", { checkIn: "2026-12-01", checkOut: "2026-12-05" });
    const first = await receive({ bookingCode: "HX3K9" });
    await webhooks.drain();
    const second = await handle("HX3K9", "Cancelled");
    const text = plain(await page(`?event=${second}&personal=1`));
    expect(text).toMatch(
      /Timeline Next attempt [\d-]+ [\d:.]+ UTC Attempt failed [\d-]+ [\d:.]+ UTC Reason: callback, took [\d.]+ m?s, on \S+:\d+ Error: the calendar is closed at \S.* Received [\d-]+ [\d:.]+ UTC/,
    );
    expect(text).toContain(`&quot;eventId&quot;: &quot;${second}&quot;`);
    expect(text).toMatch(/status Confirmed checkIn 2026-12-01 checkOut 2026-12-05/);
    expect(await page(`?event=${second}`)).toContain(`id="row-${first}"`);
    expect(await page(`?event=${second.toUpperCase()}`)).toContain("Timeline");
  });

  test("shows the newest attempt first, an equal error once, and the frames of the user's code without personal data", async () => {
    const state = { text: "the calendar is closed" };
    const saveStay = () => {
      throw new Error(state.text);
    };
    const { handle, webhooks, store, page } = await served({
      on: { booking: () => saveStay() },
      maxAttempts: 3,
      backoff: () => 0,
    });
    const eventId = await handle("HX3K9", "Cancelled");
    for (const _ of [2, 3]) await webhooks.drain();
    state.text = "the lock of Ann Lee";
    await store.replay({ eventId });
    await webhooks.drain();
    const personal = plain(await page(`?event=${eventId}&personal=1`));
    expect(personal).toMatch(
      / Timeline Next attempt .* the lock of Ann Lee at saveStay .* the calendar is closed at saveStay /,
    );
    expect(personal.split("the calendar is closed")).toHaveLength(2);
    expect(personal).toMatch(/ The same error in 2 earlier attempts, the first [\d-]+ [\d:.]+ UTC Received /);
    const hidden = plain(await page(`?event=${eventId}`));
    expect(hidden).toMatch(
      / Error at saveStay \(\S*inbox\.test\.ts:\d+:\d+\) .* The rest of the error is hidden/,
    );
    expect(hidden).not.toContain("Ann Lee");
    // A row has the text of the error, or where it was thrown.
    expect(await page("?personal=1")).not.toContain("saveStay");
    expect(plain(await page(""))).toMatch(/ Error at saveStay \(\S*inbox\.test\.ts:\d+:\d+\) /);
  });

  test("is replayed and discarded, as its state allows", async () => {
    const { handle, webhooks, url, browser, store, mend } = await served();
    const eventId = await handle("BAD", "Cancelled");
    const page = `${url}/?event=${eventId}`;
    const discarded = await browser.submit(page, "discard");
    expect(discarded.url).toContain(`event=${eventId}`);
    expect(plain(discarded.text)).toContain("Discarded 1 event.");
    expect(await store.get(eventId)).toMatchObject({ state: "done", reason: "discarded" });
    await expect(browser.submit(page, "discard")).rejects.toThrow("no form");
    mend();
    expect(plain((await browser.submit(page, "replay")).text)).toContain("Replayed 1 event.");
    await webhooks.drain();
    expect(await store.get(eventId)).toMatchObject({ state: "done", reason: null });
  });
});

test("a running handler takes up an event that was replayed in the console", async () => {
  const { platform, receive, webhooks, url, browser, store, mend } = await served();
  platform.booking("BAD", "Cancelled");
  webhooks.start();
  const eventId = await receive({ bookingCode: "BAD" });
  await eventually(async () => expect((await store.get(eventId))?.state).toBe("parked"));
  mend();
  await browser.submit(`${url}/?event=${eventId}`, "replay");
  await eventually(async () => expect((await store.get(eventId))?.state).toBe("done"));
});

describe("several at once", () => {
  test("a selection is replayed, and what could not be is told", async () => {
    const { handle, receive, url, browser, store } = await served();
    const parked = await handle("BAD", "Cancelled");
    await handle("WORSE", "Cancelled");
    const pending = await receive({ bookingCode: "NEW" });
    const chosen = [parked, pending].map((eventId) => ["event", eventId] as const);
    const { text } = await browser.submit(`${url}/?personal=1`, "replay", chosen);
    expect(plain(text)).toContain("Replayed 1 event. 1 event could not be replayed because of its state.");
    expect(await store.counts()).toMatchObject({ pending: 2, parked: 1 });
    expect((await browser.submit(url, "discard", [])).status).toBe(400);
    const tooMany = Array.from({ length: 201 }, (_, n) => ["event", `none-${n}`] as const);
    expect((await browser.submit(url, "discard", tooMany)).status).toBe(400);
  });

  test("all that match are replayed after their number is shown: 300 parked events", async () => {
    const { platform, receive, webhooks, url, browser, store, mend, page } = await served();
    platform.booking("FINE", "Confirmed");
    await receive({ bookingCode: "FINE" });
    for (let n = 0; n < 300; n++) {
      platform.booking(`B${n}`, "Cancelled");
      await receive({ bookingCode: `B${n}` });
    }
    await webhooks.drain();
    expect(await store.counts()).toMatchObject({ parked: 300, done: 1 });
    const question = "?state=parked&reason=callback&confirm=replay";
    expect(await page("?state=parked&reason=callback")).toContain(question.slice(1).replaceAll("&", "&amp;"));
    expect(plain(await page(question))).toContain("Replay 300 parked events?");
    expect(await page(question)).toContain('<button class="primary" name="do" value="replay">');
    const discard = await page("?confirm=discard&reason=callback");
    expect(plain(discard)).toContain("Discard 300 events?");
    expect(discard).toContain('<button class="danger" name="do" value="discard">');
    // The one that is done is of another state.
    expect(plain(await page("?state=parked&source=webhook&confirm=replay"))).toMatch(
      /Replay 300 parked events\? (?:(?! done).)*$/,
    );
    expect(plain(await page("?confirm=replay&source=webhook"))).toContain(
      "Replay 301 events? The filter is: source webhook . 300 parked 1 done",
    );
    expect(await store.counts()).toMatchObject({ parked: 300 });
    mend();
    expect(plain((await browser.submit(`${url}/${question}`, "replay")).text)).toContain(
      "Replayed 300 events.",
    );
    await webhooks.drain();
    expect(await store.counts()).toMatchObject({ parked: 0, done: 301 });
  });

  test("the counting of many ends, and says so", async () => {
    const { store, page } = await served();
    for (let n = 0; n < 10_600; n++) await store.add(eventOf(null, `event-${n}`));
    const lists = vi.spyOn(store, "list");
    expect(plain(await page("?confirm=discard&source=webhook"))).toContain(
      "Discard all matching events (10,000 or more)?",
    );
    expect(lists.mock.calls.length).toBeLessThan(30);
    // The store counts events by state, so the page shows the exact number.
    expect(plain(await page("?confirm=discard&state=pending"))).toContain("Discard 10,600 pending events?");
  });

  test("without a filter nothing is changed, whatever the form says", async () => {
    const { receive, url, browser, store, page } = await served();
    await receive({ bookingCode: "NEW" });
    expect(await page("")).not.toContain("confirm=");
    expect((await browser.get(`${url}/?confirm=discard`)).status).toBe(400);
    const csrf = browser.cookies.get("stayhook-csrf") ?? "";
    for (const more of [{}, { state: "" }, { sate: "parked" }])
      expect((await browser.post(url, { csrf, do: "discard", all: "1", ...more })).status).toBe(400);
    expect((await browser.post(url, { csrf, do: "explode" })).status).toBe(400);
    expect(await store.counts()).toMatchObject({ pending: 1 });
  });

  test("where a form leads back to is a page of the console, whatever the form says", async () => {
    const { receive, inbox } = await served();
    const eventId = await receive({ bookingCode: "NEW" });
    const token = "a".repeat(64);
    for (const back of ["//evil.example", "https://evil.example/", "\r\nset-cookie: a=b"]) {
      const answer = await inbox.fetch(
        new Request("https://ops.example/console", {
          method: "POST",
          body: new URLSearchParams({ csrf: token, do: "discard", event: eventId, back }),
          headers: { cookie: `stayhook-csrf=${token}`, origin: "https://ops.example" },
        }),
      );
      const location = answer.headers.get("location") ?? "";
      expect(location).toMatch(/^\?/);
      expect(new URL(location, "https://ops.example/console").host).toBe("ops.example");
      expect(answer.headers.get("set-cookie")).toBeNull();
    }
  });
});

describe("a record", () => {
  test.each(["HX3K9", "hx3k9", "booking:HX3K9", " HX3K9 "])("is found by %j", async (text) => {
    const { platform, receive, webhooks, url, browser } = await served();
    platform.booking("HX3K9", "Confirmed", { checkIn: "2026-12-01" });
    const eventId = await receive({ bookingCode: "HX3K9" });
    await webhooks.drain();
    const found = await browser.get(`${url}/?find=${encodeURIComponent(text)}`);
    expect(found.url).toContain("record=booking%3AHX3K9");
    expect(idsIn(found.text)).toEqual([eventId]);
    expect(plain(found.text)).toMatch(/booking:HX3K9 .*status Confirmed checkIn 2026-12-01/);
  });

  test("a listing is found by its id, an event by its own, and nothing is said to be nothing", async () => {
    const { platform, receive, webhooks, url, browser } = await served();
    platform.listing(5717008, "Published");
    const eventId = await receive({ bookingCode: null, listingId: 5717008 });
    await webhooks.drain();
    expect((await browser.get(`${url}/?find=5717008`)).url).toContain("record=listing%3A5717008");
    expect((await browser.get(`${url}/?find=${eventId.toUpperCase()}`)).url).toContain(`event=${eventId}`);
    for (const [query, said] of [
      ["find=nobody", "Nothing is stored about"],
      ["event=none", "No event with this id is stored"],
    ])
      expect(await browser.get(`${url}/?${query}`)).toMatchObject({
        status: 404,
        text: expect.stringContaining(said!),
      });
  });

  test("is erased after the number of its events is shown", async () => {
    const { handle, url, browser, store, page } = await served();
    for (const code of ["HX3K9", "HX3K9", "OTHER"]) await handle(code, "Confirmed");
    const question = "?confirm=erase&record=booking%3AHX3K9";
    expect(await page("?record=booking:HX3K9")).toContain(question.replaceAll("&", "&amp;"));
    expect(plain(await page(question))).toContain("Delete 2 events and the snapshot of booking:HX3K9?");
    expect(plain((await browser.submit(`${url}/${question}`, "erase")).text)).toContain("Erased 2 events.");
    expect(await store.snapshotOf("booking:HX3K9")).toBeUndefined();
    expect(await store.counts()).toMatchObject({ done: 1 });
  });

  test("is not erased while an event of it is handled", async () => {
    const { receive, url, browser, store } = await served();
    await receive({ bookingCode: "HX3K9" });
    await store.claim({ limit: 1, leaseDuration: 60_000 });
    const { status, text } = await browser.submit(`${url}/?confirm=erase&record=booking:HX3K9`, "erase");
    expect(status).toBe(409);
    expect(plain(text)).toContain("is being handled now");
    expect(await store.counts()).toMatchObject({ processing: 1 });
  });
});

test("an open page gets the values of the plots and the contents of <main>", async () => {
  const { handle, inbox, store } = await served();
  const ask = async () => {
    const query = "?live=1&state=done&personal=1";
    const answer = await inbox.fetch(new Request(`https://ops.example/${query}`));
    return { status: answer.status, ...((await answer.json()) as object) };
  };
  const empty = expect.stringContaining("No events match");
  expect(await ask()).toEqual({ status: 200, body: empty, stats: { received: 0, done: 0 } });
  const eventId = await handle("FINE", "Confirmed");
  const body = expect.stringMatching(new RegExp(`Hide personal data[^]*row-${eventId}`));
  expect(await ask()).toEqual({ status: 200, body, stats: { received: 1, done: 1 } });
  vi.spyOn(store, "oldestWaiting").mockResolvedValue(90_000);
  expect(await ask()).toMatchObject({ stats: { oldest: 90 } });
});

test("parked events are grouped by cause, with when they parked, and the events of one cause are replayed", async () => {
  const errors: Record<string, string> = { BAD: "the calendar is closed", ILL: "the calendar is closed" };
  const on = {
    booking: ({ booking }: { booking: { bookingCode: string } }) => {
      throw new Error(`${errors[booking.bookingCode] ?? "no room"} for ${booking.bookingCode}`);
    },
  };
  const { handle, page, browser, url, store } = await served({ on });
  const parked: string[] = [];
  for (const code of ["BAD", "ILL", "BAD", "FULL"]) parked.push(await handle(code, "Confirmed"));
  const text = await page("?state=parked&personal=1");
  expect(plain(text)).toMatch(
    /Causes 3 × callback Error: the calendar is closed for … at booking \(\S+ Your callback threw. 2 bookings, first parked .* last .* Replay these 3… 1 × callback Error: no room for FULL at booking \(\S+ Your callback threw. 1 booking,/,
  );
  const [, cause = ""] = /id="cause-(\w+)"/.exec(text) ?? [];
  expect(idsIn(await page(`?state=parked&cause=${cause}`))).toEqual(parked.slice(0, 3).reverse());
  expect(plain(await page("?state=parked"))).not.toContain("calendar");
  expect(plain(await page("?state=parked"))).toMatch(
    /3 × callback Error at booking \(\S+inbox\.test\.ts:\d+:\d+\)/,
  );
  expect(plain(text)).toMatch(/booking:FULL callback parked [\d-]+ [\d:]+ UTC/);
  expect(plain(await page("?state=done"))).not.toContain("Causes");
  // Among all causes, each is a link to its events. Alone, a cause is no link to itself.
  expect(text).toMatch(/<a href="[^"]*">3 × callback/);
  expect(await page(`?state=parked&cause=${cause}`)).toContain("<strong>3 × callback");
  const question = `${url}/?state=parked&cause=${cause}&confirm=replay`;
  expect(plain((await browser.get(question)).text)).toContain("Replay 3 parked events?");
  expect(plain((await browser.submit(question, "replay")).text)).toContain("Replayed 3 events.");
  expect(await store.counts()).toMatchObject({ parked: 1, pending: 3 });
});

test("parked events are listed by the time of parking, page by page, and what is cut is told", async () => {
  const { handle, receive, store, page, listed, browser, url } = await served();
  // The event that is received first parks last.
  const late = await receive({ bookingCode: "LATE" });
  const [claim] = (await store.claim({ limit: 1, leaseDuration: 60_000 })) as [ClaimedEvent];
  const ids: string[] = [];
  for (let n = 0; n < 60; n++) ids.unshift(await handle(`BAD${n}`, "Cancelled"));
  await new Promise((resolve) => setTimeout(resolve, 5));
  const since = Date.now() - claim.claimedAt;
  await store.settle(claim, {
    state: "parked",
    reason: "callback",
    entry: { duration: since, reason: "callback", error: "Error: late" },
  });
  const first = await browser.get(`${url}/?state=parked`);
  const next = decodeEntities(/rel="next" href="([^"]*)"/.exec(first.text)?.[1] ?? "");
  const pages = [...idsIn(first.text), ...(await listed(next))];
  expect(pages[0]).toBe(late);
  expect(pages.toSorted()).toEqual([late, ...ids].toSorted());
  // The event at the end of the first page is parked no more, so the list begins anew.
  await store.replay({ eventId: pages[49]! });
  expect((await listed(next))[0]).toBe(late);
  const list = store.list.bind(store);
  const [example] = await list({ state: "parked", limit: 1 });
  let read = 0;
  vi.spyOn(store, "list").mockImplementation(async ({ limit = 0, after } = {}) => {
    read += limit;
    return Array.from({ length: limit }, (_, n) => ({ ...example!, eventId: `${after ?? ""}x${n}` }));
  });
  const cut = "events, those of the filter that were received last. For older ones, set a time";
  const parkedTab = plain(await page("?state=parked"));
  expect(parkedTab).toContain(`You see what is in 1,000 ${cut}`);
  expect(parkedTab).toContain("Causes 1,000 ×");
  expect(read).toBe(1001);
  expect(plain(await page("?state=parked&error=late"))).toContain(`You see what is in 10,000 ${cut}`);
});

test("after a replay the page says what came of it, and whether a process claims events at all", async () => {
  const { handle, webhooks, browser, url, platform } = await served();
  const parked = [await handle("BAD", "Cancelled"), await handle("WORSE", "Cancelled")];
  const chosen = parked.map((eventId) => ["event", `parked ${eventId}`] as const);
  const first = await browser.submit(`${url}/?state=parked`, "replay", chosen);
  expect(plain(first.text)).toContain("Replayed 2 events. 0 done , 0 failed again, 2 waiting.");
  expect(plain(first.text).split("Replayed 2 events.")).toHaveLength(2);
  const now = performance.now();
  const clock = vi.spyOn(performance, "now").mockImplementation(() => now + 181_000);
  expect(plain((await browser.get(first.url)).text)).toContain(
    "No process has claimed anything for 3 minutes.",
  );
  clock.mockRestore();
  platform.booking("BAD", "Confirmed");
  await webhooks.drain();
  const said = "Replayed 2 events. 1 done , 1 failed again ( parked , retrying ), 0 waiting.";
  expect(plain((await browser.get(first.url)).text)).toContain(said);
  const all = await browser.submit(`${url}/?state=parked&confirm=replay`, "replay");
  expect(plain(all.text)).toContain("Replayed 1 event. 0 done , 0 failed again, 1 waiting.");
});

describe("scheduled events", () => {
  async function withTimers() {
    const made = await served({ on: { fallback: () => {} } });
    for (const code of ["ONE", "TWO"]) {
      made.platform.booking(code, "Confirmed");
      await made.webhooks.timers(`booking:${code}`).set("mail", new Date(Date.now() + 6 * 86_400_000));
    }
    const chosen = (await made.store.list({ limit: 2 })).map(({ eventId }) => ["event", eventId] as const);
    return { ...made, chosen };
  }

  test("do not run early before the user has confirmed, in words of their own", async () => {
    const { browser, url, store, chosen, page, handle } = await withTimers();
    const asked = await browser.submit(`${url}/?state=scheduled`, "replay", chosen);
    expect(plain(asked.text)).toContain("Run 2 timers now, before their time?");
    expect(plain(asked.text)).not.toContain("attempt");
    expect(await store.counts()).toMatchObject({ scheduled: 2, pending: 0 });
    expect(plain(await page("?state=scheduled"))).toMatch(
      /Run selected now Cancel selected Run all matching events now… Cancel all matching events…/,
    );
    const all = plain(await page("?confirm=replay&state=scheduled"));
    expect(all).toContain("Run 2 timers now, before their time?");
    expect(all).not.toContain("attempt");
    expect(plain(await page("?confirm=discard&state=scheduled"))).toContain("Cancel 2 timers?");
    const parked = await handle("BAD", "Cancelled");
    const mixed = await browser.submit(`${url}/?state=scheduled`, "replay", [...chosen, ["event", parked]]);
    expect(plain(mixed.text)).toContain("Run 2 timers now, before their time, and replay 1 event?");
    // It is done by now, and the page has shown it as parked, so that nothing replays it.
    const changed = [...chosen, ["event", `parked ${parked}`] as const];
    const left = await browser.submit(`${url}/?state=scheduled`, "replay", changed);
    expect(plain(left.text)).toContain("Run 2 timers now, before their time?");
    const ran = await browser.post(asked.url, confirmedOf(asked.text));
    expect(plain(ran.text)).toContain("Replayed 2 events.");
    expect(ran.url).toContain("state=scheduled");
    for (const { dueAt } of await store.list({ state: "scheduled", limit: 5 }))
      expect(Number(dueAt)).toBeLessThanOrEqual(Date.now());
  });

  test("the timer that is due first is shown among 1,050, and the page says what is cut", async () => {
    const { store, page } = await served();
    const timer = (name: string, ref = "booking:MANY") => ({
      eventId: `stayhook:timer:${ref}:${name}`,
      ref,
      source: "timer" as const,
      topic: null,
      timestamp: "2031-01-01T00:00:00.000Z",
      notification: "{}",
    });
    await store.add(timer("soon", "booking:SOON"), { dueIn: 600_000 });
    for (let n = 0; n < 1050; n++) await store.add(timer(`t${n}`), { dueIn: 30 * 86_400_000 });
    const shown = await page("?state=scheduled");
    const ids = [...shown.matchAll(/id="row-([^"]*)"/g)].map(([, id]) => id);
    expect(ids).toHaveLength(1000);
    expect(ids[0]).toContain("booking:SOON:soon");
    expect(plain(shown)).toContain("You see the 1,000 of 1,051 scheduled events that are due first.");
    expect(plain(await page("?record=booking:MANY"))).toContain("You see the 50 of 1,050 scheduled events");
  });

  test("the page of a record asks for what is to come by itself, and says what it leaves out", async () => {
    const { webhooks, handle, page, platform } = await served({ on: { fallback: () => {} } });
    platform.booking("BUSY", "Confirmed");
    await webhooks.timers("booking:BUSY").set("door-code", new Date(Date.now() + 23 * 3_600_000));
    let last = "";
    for (let n = 0; n < 56; n++) last = await handle("BUSY", "Confirmed");
    const record = plain(await page("?record=booking:BUSY"));
    expect(record).toMatch(/To come .*booking\.timer\.door-code/);
    expect(record).toContain("You see the newest 50 events. Older ones are stored, too.");
    expect(plain(await page(`?event=${last}`))).toContain("You see the newest 20 events.");
  });

  test("a stale page changes nothing that somebody else has changed", async () => {
    const { handle, url, browser, store } = await served({ on: {}, maxAttempts: 1 });
    const eventId = await handle("FINE", "Confirmed");
    const { text } = await browser.submit(url, "replay", [["event", `parked ${eventId}`]]);
    expect(plain(text)).toContain("Replayed 0 events. 1 event could not be replayed");
    expect(await store.get(eventId)).toMatchObject({ state: "done" });
    expect((await browser.get(url)).text).toContain(`value="done ${eventId}"`);
  });
});

test("timers are listed by day, and on the page of their record, the first one first; they are run now and cancelled", async () => {
  const fired: string[] = [];
  const on = {
    fallback: ({ timer }: { timer?: { name: string } | undefined }) => void fired.push(timer!.name),
  };
  const { webhooks, platform, page, browser, url } = await served({ on });
  platform.booking("HX3K9", "Confirmed");
  const { set, list } = webhooks.timers("booking:HX3K9");
  const day = (days: number) => new Date(Math.floor(Date.now() / 86_400_000 + days) * 86_400_000 + 3_600_000);
  // A store lists the newest event first, so the last of these timers is the first of its list.
  await set("door-code", day(3));
  await set("arrival-mail", day(3));
  await set("cleaning", day(9));
  const shown = plain(await page("?state=scheduled"));
  const on3 = day(3).toISOString().slice(0, 10);
  const on9 = day(9).toISOString().slice(0, 10);
  expect(shown).toMatch(
    new RegExp(
      `${on3} UTC.*booking\\.timer\\.(door|arr).*booking\\.timer\\.(door|arr).*${on9} UTC.*booking\\.timer\\.cleaning`,
    ),
  );
  expect(plain(await page("?record=booking:HX3K9"))).toMatch(/To come.*arrival-mail.*cleaning.*Events/);
  const of = (name: string) => `${url}/?event=stayhook:timer:booking:HX3K9:${name}`;
  expect(plain((await browser.get(of("cleaning"))).text)).toMatch(/Cancel Run now.*Scheduled for.*Timer set/);
  await browser.submit(of("cleaning"), "discard");
  const asked = await browser.submit(of("door-code"), "replay");
  expect(plain(asked.text)).toContain("Run 1 timer now, before its time?");
  await browser.post(asked.url, confirmedOf(asked.text));
  await webhooks.drain();
  expect(fired).toEqual(["door-code"]);
  expect(Object.fromEntries((await list()).map(({ name, state }) => [name, state]))).toEqual({
    "arrival-mail": "scheduled",
    cleaning: "done",
    "door-code": "done",
  });
});
