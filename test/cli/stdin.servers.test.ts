import { join } from "node:path";
import { sqliteStore } from "stayhook/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { ctrlC, spawned } from "./process.ts";
import { directory, platform, receiver } from "./support.ts";

const onTerminal = { columns: 100 };

/** Makes a store with one parked event, and an account with a webhook configuration. */
async function setUp() {
  const file = join(directory(), "events.db");
  const store = sqliteStore(file, { durability: "process-crash" });
  onTestFinished(() => store.close());
  const event = { ref: "booking:HX3K9", source: "webhook", topic: null, notification: "{}" } as const;
  await store.add({ eventId: crypto.randomUUID(), timestamp: "2026-11-21T10:00:00Z", ...event });
  const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
  const entry = { duration: 5, reason: "denied" } as const;
  await store.settle(claim!, { state: "parked", reason: "denied", entry });
  const { sandbox, env } = await platform();
  const { url, received } = await receiver();
  const body = JSON.stringify({ isActive: true, endpoints: { bookings: url } });
  const headers = { authorization: `Bearer ${sandbox.accessToken}` };
  await fetch(`${sandbox.url}/v2/webhooks/config`, { method: "POST", headers, body });
  return { store, sandbox, env: { ...env, STAYHOOK_STORE: file }, url, received };
}

describe("a command that reads a URL from stdin ends although stdin stays open", () => {
  test.each([
    [["trigger", "message", "--to", "-"], 1],
    [["doctor", "--to", "-"], 0],
    [["config", "ensure", "--to", "-"], 0],
    [["config", "set", "--bookings", "-", "--listings", "-"], 2],
  ])("%j", async (args, lines) => {
    const { env, url, received, sandbox } = await setUp();
    const running = spawned(args, { env });
    running.type(`${url}\n`.repeat(Math.max(1, lines)));
    const code = await running.ended;
    // `doctor` fails, because the endpoint answers 200 to a wrong secret.
    expect(code, running.output()).toBe(args[0] === "doctor" ? 1 : 0);
    if (args[0] === "trigger") expect(received()).toHaveLength(1);
    if (args[0] === "config") expect(Object.keys(sandbox.webhookConfig!.endpoints)).toContain("listings");
  });

  test("listen ends by Ctrl-C", async () => {
    const { env, url } = await setUp();
    const running = spawned(["listen", "--to", "-"], { env, ...onTerminal });
    running.type(`${url}\n`);
    await running.says("Forwarding new notifications");
    running.type(ctrlC);
    expect(await running.ended, running.output()).toBe(0);
  });
});

// `console` cannot run from the sources, because they import files that only the build can read.
test.each([
  "listings",
  "booking HX3K9",
  "events ls",
  "events counts",
  "events replay --dry-run --all",
  "reconcile",
  "config get",
  "copy --from {store} --to {store}.copy",
])("%s ends with 0, although stdin stays open", { timeout: 60_000 }, async (line) => {
  const { env, sandbox } = await setUp();
  await sandbox.bookings.create({ bookingCode: "HX3K9", status: "Confirmed" });
  const running = spawned(line.replaceAll("{store}", env.STAYHOOK_STORE).split(" "), { env });
  expect(await running.ended, running.output()).toBe(0);
});

describe("a command that asks on a terminal ends after the answer", () => {
  test.each([
    ["config", "off"],
    ["config", "delete"],
    ["events", "replay", "--all"],
    ["events", "discard", "--all"],
    ["events", "prune", "--state", "parked", "--older-than", "0"],
    ["events", "erase", "booking:HX3K9"],
  ])("%s %s", { timeout: 60_000 }, async (...args) => {
    const { env, store, sandbox } = await setUp();
    const before = { counts: await store.counts(), config: sandbox.webhookConfig };
    const running = spawned(args, { env, ...onTerminal });
    await running.says("[y/N]");
    running.type("n\n");
    expect(await running.ended, running.output()).toBe(1);
    expect({ counts: await store.counts(), config: sandbox.webhookConfig }).toEqual(before);

    const confirmed = spawned(args, { env, ...onTerminal });
    await confirmed.says("[y/N]");
    confirmed.type("y\n");
    expect(await confirmed.ended, confirmed.output()).toBe(0);
    expect({ counts: await store.counts(), config: sandbox.webhookConfig }).not.toEqual(before);
  });

  test("Ctrl-C at the question ends with 130", async () => {
    const { env, sandbox } = await setUp();
    const running = spawned(["config", "off"], { env, ...onTerminal });
    await running.says("[y/N]");
    running.type(ctrlC);
    expect(await running.ended, running.output()).toBe(130);
    expect(sandbox.webhookConfig?.isActive).toBe(true);
  });
});

describe("the sandbox", () => {
  const endings: [how: string, text: string, columns: number | undefined][] = [
    ["quit at a terminal", "quit\n", 100],
    ["Ctrl-C at a terminal", ctrlC, 100],
    ["Ctrl-C in a half typed line", `request HX${ctrlC}`, 100],
    ["quit over an open pipe", "quit\n", undefined],
  ];
  test.each(endings)("ends by %s", { timeout: 120_000 }, async (_how, text, columns) => {
    for (let round = 0; round < 3; round++) {
      const running = spawned(["sandbox", "--port", "0"], columns === undefined ? {} : { columns });
      await running.says("The sandbox listens");
      running.type("book HX3K9\n");
      await running.says("booking HX3K9 is Confirmed");
      running.type(text);
      expect(await running.ended, running.output()).toBe(0);
    }
  });

  test("reads the URL of --to from stdin, and then commands", async () => {
    const { url, received } = await receiver();
    const running = spawned(["sandbox", "--port", "0", "--to", "-"]);
    running.type(`${url}\nbook HX3K9\n`);
    await running.says(/: 200 in \d+ ms/);
    expect(received()).toHaveLength(1);
    running.type("quit\n");
    expect(await running.ended, running.output()).toBe(0);
  });
});
