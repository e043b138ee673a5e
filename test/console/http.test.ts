import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { createWebhookHandler, forwardTo, InvalidArgumentError } from "stayhook";
import { createConsole } from "stayhook/console";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { clientOf, platformOf } from "../webhooks/support.ts";
import { Browser, type inboxOf, servedInboxOf } from "./support.ts";

const hostile = `<script>alert("x")</script>'\u202e`;

/** Serves a console with one parked event. The error and the notification contain personal data. */
async function parked(consoleOptions: Parameters<typeof inboxOf>[1] = {}) {
  const made = await servedInboxOf(
    {
      on: {
        fallback: () => {
          throw new Error(`no room for Ann Lee ${hostile}`);
        },
      },
      maxAttempts: 1,
    },
    consoleOptions,
  );
  return { ...made, eventId: await made.handle("HX3K9", "Confirmed", { guest: "Ann Lee" }) };
}

/** Sends the replay form of an event to `address`, with a CSRF token in the form and in the cookie. */
function replay(
  { inbox, eventId }: Awaited<ReturnType<typeof parked>>,
  address: string,
  csrf: string,
  headers: Readonly<Record<string, string>>,
) {
  const body = new URLSearchParams({ csrf, do: "replay", event: eventId });
  const init = { method: "POST", body, headers: { cookie: `stayhook-csrf=${csrf}`, ...headers } };
  return inbox.fetch(new Request(address, init));
}

describe("the arguments", () => {
  const store = forwardTo(async () => {});
  const webhooks = createWebhookHandler({ client: clientOf(platformOf()), store, on: {}, verify: false });
  const authorize = () => true;

  test.each([
    ["no options", undefined, /authorize/],
    ["no authorize", {}, /authorize/],
    ["an authorize that is no function", { authorize: "yes" }, /authorize/],
    ["a misspelled option", { authorize, readonly: true }, /did you mean `readOnly`/],
    ["a basePath without a slash", { authorize, basePath: "console" }, /basePath/],
    ["a readOnly that is no boolean", { authorize, readOnly: "yes" }, /readOnly/],
    ["a handler without a store", { authorize }, /forwardTo/],
  ])("%s throws, and names what is wrong", (_, options, message) => {
    const make = () => createConsole(webhooks as never, options as never);
    expect(make).toThrow(InvalidArgumentError);
    expect(make).toThrow(message);
  });

  test("what is no handler throws", () => {
    expect(() => createConsole({} as never, { authorize })).toThrow(InvalidArgumentError);
  });
});

describe("authorize", () => {
  test.each([
    ["false", () => false],
    ["a promise of false", async () => false],
    ["a truthy value that is not true", () => ({ allowed: false })],
    [
      "an error",
      () => {
        throw new Error("secret database password");
      },
    ],
    ["a rejection", async () => Promise.reject(new Error("secret database password"))],
  ])("%s refuses pages, assets, updates and changes, and reveals nothing", async (_, authorize) => {
    const { url, eventId, store } = await parked({ authorize: authorize as () => boolean });
    for (const query of ["", `?event=${eventId}`, "?asset=script.js", "?live=1"]) {
      const { status, text } = await new Browser().get(`${url}/${query}`);
      expect(status).toBe(403);
      expect(text).not.toMatch(/HX3K9|password|parked/);
    }
    const { status } = await new Browser().post(url, { do: "replay", event: eventId });
    expect(status).toBe(403);
    expect(await store.counts()).toMatchObject({ parked: 1 });
  });

  test("is asked with the request, each time", async () => {
    const authorize = vi.fn((request: Request) => request.headers.get("authorization") === "Bearer s3cret");
    const { url, browser } = await parked({ authorize });
    expect((await browser.get(url)).status).toBe(403);
    expect((await browser.get(url, { authorization: "Bearer s3cret" })).status).toBe(200);
    expect((await browser.get(url, { authorization: "Bearer other" })).status).toBe(403);
  });
});

test("every answer has a strict policy, no inline code and nothing from elsewhere, and is not stored", async () => {
  const { url, browser, eventId } = await parked();
  for (const query of [
    ...["", `?event=${eventId}`, "?record=booking:HX3K9", "?confirm=replay&state=parked"],
    ...["?asset=script.js", "?asset=none", "?state=wrong"],
  ]) {
    const { headers, text } = await browser.get(`${url}/${query}`);
    const policy = headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("x-frame-options")).toBe("DENY");
    expect(headers.get("referrer-policy")).toBe("same-origin");
    if (!headers.get("content-type")?.includes("html")) continue;
    expect(text).not.toMatch(/<script(?![^>]*src=)|<style|\sstyle=|\son\w+=|javascript:/i);
    expect(text.match(/\s(?:src|href|action)="(?!\?)[^"]*"/g) ?? []).toEqual([' href="#main"']);
  }
});

test("text from outside is escaped: a ref, a status, an error, a notification and a search", async () => {
  const { url, browser, receive, webhooks, platform } = await parked();
  platform.answer("*", { status: 200, body: { bookingCode: hostile, status: hostile } });
  const eventId = await receive({ bookingCode: hostile });
  await webhooks.drain();
  const pages = [
    "?personal=1",
    `?event=${eventId}&personal=1`,
    `?record=${encodeURIComponent(`booking:${hostile}`)}`,
    `?find=${encodeURIComponent(hostile + hostile)}`,
    `?ref=${encodeURIComponent(hostile)}`,
    `?type=${encodeURIComponent(hostile)}&confirm=replay`,
    `?confirm=erase&record=${encodeURIComponent(hostile)}`,
    `?state=${encodeURIComponent(hostile)}`,
    `?event=${encodeURIComponent(hostile)}`,
  ];
  for (const page of pages) {
    const { text } = await browser.get(`${url}/${page}`);
    expect(text).not.toContain("<script>alert");
    expect(text).not.toContain("\u202e");
  }
  const { text } = await browser.get(`${url}/?event=${eventId}&personal=1`);
  expect(text).toContain("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;");
});

describe("personal data", () => {
  test("is hidden until asked for", async () => {
    const { url, browser, eventId } = await parked();
    for (const query of ["", `?event=${eventId}`, "?record=booking:HX3K9"]) {
      expect((await browser.get(`${url}/${query}`)).text).not.toContain("Ann Lee");
      const shown = await browser.get(`${url}/${query === "" ? "?" : `${query}&`}personal=1`);
      expect(shown.text).toContain("Ann Lee");
    }
  });

  test("is not in a snapshot either, unless its field names no person", async () => {
    const track = { booking: () => ({ checkIn: "2026-12-01", guestName: "Ann Lee" }) };
    const { handle, url, browser } = await servedInboxOf({ track });
    await handle("HX3K9", "Confirmed");
    const { text } = await browser.get(`${url}/?record=booking:HX3K9`);
    expect(text).toContain("2026-12-01");
    expect(text).toContain("guestName");
    expect(text).not.toContain("Ann Lee");
    expect((await browser.get(`${url}/?record=booking:HX3K9&personal=1`)).text).toContain("Ann Lee");
  });

  test("is not in the changes of an event, which show the status and the dates from and to", async () => {
    let stay = { checkIn: "2026-12-01", guestName: "Ann Lee" };
    const { handle, url, browser } = await servedInboxOf({ track: { booking: () => stay } });
    await handle("HX3K9", "Request");
    stay = { checkIn: "2026-12-03", guestName: "Bo Lee" };
    const page = `${url}/?event=${await handle("HX3K9", "Confirmed")}`;
    const changed = "Changed: status Request -&gt; Confirmed, checkIn 2026-12-01 -&gt; 2026-12-03";
    expect((await browser.get(page)).text).toContain(`${changed}, guestName (hidden)`);
    expect((await browser.get(`${page}&personal=1`)).text).toContain(
      `${changed}, guestName Ann Lee -&gt; Bo Lee`,
    );
  });
});

test.each(["127.0.0.1/ops?x=", "127.0.0.1?event=1#", "127.0.0.1#", "127.0.0.1\\ops", "user@127.0.0.1"])(
  "a Host that would steer the URL is refused, and authorize does not see it: %s",
  async (host) => {
    const authorize = vi.fn(() => true);
    const { url } = await parked({ authorize });
    const asked = request(url, { headers: { host } });
    asked.end();
    const [answer] = (await once(asked, "response")) as [IncomingMessage];
    answer.resume();
    expect(answer.statusCode).toBe(400);
    expect(authorize).not.toHaveBeenCalled();
  },
);

describe("a form from elsewhere is refused", () => {
  test("without the token, with a wrong one, and without the cookie", async () => {
    const { url, browser, eventId, store } = await parked();
    const fields = { do: "replay", event: eventId };
    expect((await browser.post(url, fields)).status).toBe(403);
    await browser.get(url);
    const token = [...browser.cookies.values()][0] ?? "";
    expect((await browser.post(url, fields)).status).toBe(403);
    expect((await browser.post(url, { ...fields, csrf: "0".repeat(64) })).status).toBe(403);
    expect((await browser.post(url, { ...fields, csrf: token.slice(1) })).status).toBe(403);
    expect((await new Browser().post(url, { ...fields, csrf: token })).status).toBe(403);
    expect(await store.counts()).toMatchObject({ parked: 1 });
    expect((await browser.post(url, { ...fields, csrf: token })).status).toBe(200);
    expect(await store.counts()).toMatchObject({ pending: 1 });
  });

  test.each([
    [{ origin: "https://evil.example" }],
    [{ origin: "null" }],
    [{ "sec-fetch-site": "cross-site" }],
    [{ "sec-fetch-site": "same-site" }],
    [{ "sec-fetch-site": "none" }],
  ])("a form with the right token and the headers %j is refused", async (headers) => {
    const made = await parked();
    const { inbox, store } = made;
    const page = await inbox.fetch(new Request("https://ops.example/console"));
    const cookie = page.headers.getSetCookie()[0] ?? "";
    const token = /=([0-9a-f]{64});/.exec(cookie)?.[1] ?? "";
    expect(cookie).toMatch(/; HttpOnly; SameSite=Strict; Secure$/);
    const post = (more: Readonly<Record<string, string>>) =>
      replay(made, "https://ops.example/console", token, more);
    expect((await post(headers)).status).toBe(403);
    expect(await store.counts()).toMatchObject({ parked: 1 });
    expect((await post({ "sec-fetch-site": "same-origin", origin: "https://ops.example" })).status).toBe(303);
  });

  test("behind a proxy that changes the host, the origin is compared with the host that the proxy tells", async () => {
    const made = await parked();
    const post = (more: Readonly<Record<string, string>>) =>
      replay(made, "http://10.0.0.7:3000/console", "a".repeat(64), {
        origin: "https://ops.example",
        ...more,
      });
    expect((await post({})).status).toBe(403);
    expect((await post({ "x-forwarded-host": "ops.example" })).status).toBe(303);
  });

  test("a body that is too large or is no form", async () => {
    const { inbox } = await parked();
    // A stream has no content-length, so the console must count the bytes.
    const chunk = new TextEncoder().encode("x".repeat(10_000));
    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        pulled++;
        controller.enqueue(chunk);
      },
    });
    const request = (body: BodyInit, type: string) =>
      new Request("https://ops.example/", {
        method: "POST",
        body,
        headers: { "content-type": type },
        duplex: "half",
      } as RequestInit);
    expect((await inbox.fetch(request(endless, "application/x-www-form-urlencoded"))).status).toBe(413);
    expect(pulled).toBeLessThan(10);
    expect((await inbox.fetch(request("{}", "application/json"))).status).toBe(415);
    expect((await inbox.fetch(request("csrf=1", "text/plain"))).status).toBe(415);
  });
});

test("a form that does not arrive within 10 s is refused, and its first half changes nothing", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { inbox, eventId, store } = await parked();
  const csrf = "a".repeat(64);
  const half = new URLSearchParams({ csrf, do: "replay", event: eventId }).toString();
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new TextEncoder().encode(half)),
  });
  const type = { "content-type": "application/x-www-form-urlencoded" };
  const headers = { ...type, cookie: `stayhook-csrf=${csrf}` };
  const init = { method: "POST", body, headers, duplex: "half" } as RequestInit;
  let status: number | undefined;
  const answered = inbox.fetch(new Request("https://ops.example/", init)).then((answer) => {
    status = answer.status;
  });
  await vi.advanceTimersByTimeAsync(9900);
  expect(status).toBeUndefined();
  await vi.advanceTimersByTimeAsync(200);
  await answered;
  expect(status).toBe(408);
  expect(await store.counts()).toMatchObject({ parked: 1 });
});

test("read only: no forms that change anything, and changes are refused", async () => {
  const { url, browser, eventId, store } = await parked({ readOnly: true });
  for (const query of ["", `?event=${eventId}`, "?record=booking:HX3K9", "?state=parked"]) {
    const { text } = await browser.get(`${url}/${query}`);
    expect(text).not.toMatch(/value="(replay|discard|erase)"|confirm=/);
  }
  const csrf = browser.cookies.get("stayhook-csrf") ?? "";
  const { status, headers } = await browser.post(url, { csrf, do: "replay", event: eventId });
  expect({ status, allow: headers.get("allow") }).toEqual({ status: 405, allow: "GET, HEAD" });
  expect((await browser.get(`${url}/?confirm=replay&state=parked`)).status).toBe(403);
  expect(await store.counts()).toMatchObject({ parked: 1 });
});

describe("the path", () => {
  test.each([
    ["/console", "/console"],
    ["/console", "/console/"],
    ["/ops/inbox/", "/ops/inbox"],
    ["/ops/inbox/", "/ops/inbox/"],
    // A router may strip the prefix.
    ["/console", "/"],
    [undefined, "/anywhere/at/all"],
    [undefined, "/"],
  ])("with basePath %s, %s is the console, and its links and forms stay there", async (basePath, path) => {
    const { url, browser, eventId, store } = await parked({ basePath });
    const page = `${url}${path}`;
    const { status, text } = await browser.get(page);
    expect(status).toBe(200);
    const link = /href="(\?event=[^"]*)"/.exec(text)?.[1] ?? "none";
    expect((await browser.get(new URL(link, page).href)).text).toContain("Timeline");
    expect((await browser.get(new URL("?asset=style.css", page).href)).headers.get("content-type")).toMatch(
      /css/,
    );
    const after = await browser.submit(`${page}?event=${eventId}`, "replay");
    expect(new URL(after.url).pathname).toBe(path);
    expect(after.text).toContain("Replayed 1 event.");
    expect(await store.counts()).toMatchObject({ pending: 1 });
  });

  test.each(["/console/more", "/consoles", "/", "/other"])(
    "with basePath /console, %s is not found",
    async (path) => {
      const { inbox } = await parked({ basePath: "/console" });
      const { status } = await inbox.fetch(new Request(`https://ops.example${path}`));
      // A router may have stripped the prefix.
      expect(status).toBe(path === "/" ? 200 : 404);
    },
  );
});

test("other methods are refused, and HEAD has the headers alone", async () => {
  const { inbox } = await parked();
  const ask = (method: string) => inbox.fetch(new Request("https://ops.example/", { method }));
  for (const method of ["PUT", "DELETE", "PATCH", "OPTIONS"]) {
    const { status, headers } = await ask(method);
    expect([status, headers.get("allow")]).toEqual([405, "GET, HEAD, POST"]);
  }
  const head = await ask("HEAD");
  expect([head.status, await head.text()]).toEqual([200, ""]);
});

test("a store that fails is a 503 without its error, which is in the log", async () => {
  const { inbox, store, logger } = await parked();
  await store.close();
  for (const query of ["", "?live=1"]) {
    const answer = await inbox.fetch(new Request(`https://ops.example/${query}`));
    expect(answer.status).toBe(503);
    expect(await answer.text()).not.toContain("closed");
  }
  expect(logger.lines).toContainEqual(
    expect.stringContaining(
      "stayhook: a web page of Stayhook could not be rendered: StayhookError: The event store is closed",
    ),
  );
});
