import { request } from "node:http";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { hasChromium, openPage } from "../console/chromium.ts";
import { Browser } from "../console/support.ts";
import { eventOf } from "../stores/event.ts";
import { eventually } from "../support/eventually.ts";
import { cli, directory, fileStore, start } from "./support.ts";

/** Opens the console of a store with one pending event. */
async function opened(...args: string[]) {
  const file = join(directory(), "events.db");
  const store = fileStore(file);
  onTestFinished(() => store.close());
  const event = eventOf("booking:HX3K9");
  const { eventId } = event;
  await store.add(event);
  const running = start(["console", "--store", file, "--port", "0", ...args]);
  await eventually(() => expect(running.stdout()).toContain("?token="));
  const url = /http:\S+/.exec(running.stdout())?.[0] ?? "";
  return { file, store, eventId, running, url, origin: new URL(url).origin };
}

test("the URL that is printed opens the console once, and a cookie from then on", async () => {
  const { url, origin, eventId, running } = await opened();
  expect(new URL(url).hostname).toBe("127.0.0.1");
  // The console listens only on 127.0.0.1, not on another address of this machine.
  await expect(fetch(origin.replace("127.0.0.1", "127.0.0.2"))).rejects.toThrow();
  expect((await new Browser().get(origin)).status).toBe(403);
  expect((await new Browser().get(`${origin}/?token=guess`)).status).toBe(403);
  const raw = await fetch(url, { redirect: "manual" });
  expect(raw.headers.get("set-cookie")).toMatch(/; HttpOnly; SameSite=Strict$/);
  expect(raw.headers.get("location")).not.toContain("token");
  const browser = new Browser();
  const page = await browser.get(url);
  expect({ status: page.status, url: page.url }).toEqual({ status: 200, url: `${origin}/?` });
  expect(page.text).toContain(`row-${eventId}`);
  expect((await browser.get(`${origin}/?event=${eventId}`)).text).toContain("Timeline");
  running.interrupt();
  expect(await running.ended).toMatchObject({ code: 0, stderr: "" });
  await expect(fetch(origin)).rejects.toThrow();
});

test("events are changed, each change is printed, and none is handled by it", async () => {
  const { url, origin, eventId, store, running } = await opened();
  const browser = new Browser();
  await browser.get(url);
  const { text } = await browser.submit(`${origin}/?event=${eventId}`, "discard");
  expect(text).toContain("Discarded 1 event.");
  await eventually(() =>
    expect(running.stdout()).toMatch(
      new RegExp(`\\n\\S+ event ${eventId} \\(booking:HX3K9\\) discarded in the console\\n$`),
    ),
  );
  await browser.submit(`${origin}/?event=${eventId}`, "replay");
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(await store.get(eventId)).toMatchObject({ state: "pending", history: [] });
});

test("--read-only changes nothing, and --json prints the URL as JSON", async () => {
  const { eventId, origin, running, store } = await opened("--read-only", "--json");
  const { url, readOnly } = JSON.parse(running.stdout());
  expect(readOnly).toBe(true);
  const browser = new Browser();
  expect((await browser.get(url)).text).not.toContain('value="discard"');
  const csrf = browser.cookies.get("stayhook-csrf") ?? "";
  expect((await browser.post(origin, { csrf, do: "discard", event: eventId })).status).toBe(405);
  expect(await store.get(eventId)).toMatchObject({ state: "pending" });
});

test("a stranger's name for this machine is refused, with the token as well", async () => {
  const { url } = await opened();
  const status = await new Promise((resolve, reject) => {
    const sent = request(url, { headers: { host: "evil.example" } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    sent.on("error", reject);
    sent.end();
  });
  expect(status).toBe(403);
});

test("a page of a command that was started again says to open the new URL", async () => {
  const { origin } = await opened();
  const browser = new Browser();
  browser.cookies.set(`stayhook-token-${new URL(origin).port}`, "0".repeat(48));
  expect(await browser.get(origin)).toMatchObject({
    status: 403,
    text: expect.stringContaining("open the new URL that the command has printed"),
  });
});

test("a port that is taken is named", async () => {
  const { origin, file } = await opened();
  const { port } = new URL(origin);
  const { code, stderr } = await cli(`console --store ${file} --port ${port}`);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(`Port ${port} is in use.`) });
});

test.skipIf(!hasChromium)("Chromium opens the printed URL, and the page is live", async () => {
  const { url, origin, store, eventId } = await opened();
  const page = await openPage();
  await page.goto(url);
  expect(page.url()).toBe(`${origin}/?`);
  await page.waitForSelector(`#row-${eventId}`);
  await page.waitForSelector("[data-live-state]:text('Live')");
  await store.discard({ eventId });
  await page.waitForSelector(`#row-${eventId} .badge:text('discarded')`);
  expect(await page.evaluate(() => document.cookie)).toBe("");
});

test("a machine without Chromium is told which file runs no test in it, and CI fails", async () => {
  onTestFinished(() => void vi.unstubAllEnvs());
  const said = vi.spyOn(console, "warn").mockImplementation(() => {});
  onTestFinished(() => said.mockRestore());
  vi.stubEnv("CHROMIUM_PATH", "/nowhere/chromium");
  for (const ci of ["", "true"]) {
    vi.stubEnv("CI", ci);
    vi.resetModules();
    const loaded = import("../console/chromium.ts");
    if (ci) await expect(loaded).rejects.toThrow("in CI nothing is skipped");
    else expect((await loaded).hasChromium).toBe(false);
  }
  expect(said.mock.calls).toEqual([
    [
      "SKIPPED: test/cli/console.test.ts runs no test in Chromium, because /nowhere/chromium is not installed",
    ],
  ]);
});
