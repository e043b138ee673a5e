import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { eventOf } from "../stores/event.ts";
import { ctrlC, spawned } from "./process.ts";
import { clientOf, directory, fileStore, platform, receiver } from "./support.ts";

const onTerminal = { columns: 100 };

/** Makes a store with one parked event, and an account with a webhook configuration. */
async function setUp() {
  const file = join(directory(), "events.db");
  const store = fileStore(file);
  onTestFinished(() => store.close());
  await store.add(eventOf("booking:HX3K9"));
  const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
  const entry = { duration: 5, reason: "denied" } as const;
  await store.settle(claim!, { state: "parked", reason: "denied", entry });
  const { sandbox, env } = await platform();
  const { url, received } = await receiver();
  await clientOf(env).webhookConfig.ensure({ endpoints: { bookings: url } });
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
])("%s ends with 0, although stdin stays open", async (line) => {
  const { env, sandbox } = await setUp();
  await sandbox.bookings.create({ bookingCode: "HX3K9", status: "Confirmed" });
  const running = spawned(line.replaceAll("{store}", env.STAYHOOK_STORE).split(" "), { env });
  expect(await running.ended, running.output()).toBe(0);
});

describe("a command that asks on a terminal ends after the answer", () => {
  test.each([
    ["config off", "Switch the delivery of notifications off", "isActive"],
    ["config delete", "Delete the webhook configuration", "deleted"],
    ["events replay --all", "Replay 1 parked event", "1 event will be handled again (parked)\n"],
    ["events discard --all", "Discard 1 parked event", "1 event discarded (parked)\n"],
    [
      "events prune --state parked --reason denied --older-than 0",
      "Delete all events that have been parked for 0 or longer and have the reason denied",
      "1 parked event deleted\n",
    ],
    [
      "events erase booking:HX3K9",
      "Delete 1 event and the snapshot of booking:HX3K9",
      "1 event and the snapshot of booking:HX3K9 deleted\n",
    ],
  ])("%s", async (line, question, result) => {
    const { env, store, sandbox } = await setUp();
    const state = async () => ({ counts: await store.counts(), config: sandbox.webhookConfig });
    const before = await state();
    const answer = async (text: string) => {
      const running = spawned(line.split(" "), { env, ...onTerminal });
      await running.says(`${question}? [y/N]`);
      running.type(text);
      return { code: await running.ended, output: running.output() };
    };
    for (const no of ["no\n", "\n"]) {
      expect(await answer(no)).toMatchObject({
        code: 1,
        output: expect.stringContaining("Nothing was changed."),
      });
      expect(await state()).toEqual(before);
    }
    expect(await answer("y\n")).toMatchObject({ code: 0, output: expect.stringContaining(result) });
    expect(await state()).not.toEqual(before);
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
  test.each(endings)("ends by %s", async (_how, text, columns) => {
    for (let round = 0; round < 3; round++) {
      const running = spawned(["sandbox", "--port", "0"], columns === undefined ? {} : { columns });
      await running.says("The sandbox listens");
      running.type("book HX3K9\n");
      await running.says("booking HX3K9 is Confirmed");
      running.type(text);
      expect(await running.ended, running.output()).toBe(0);
    }
  });

  test("keeps a half-typed line whole below the lines that it prints", async () => {
    const running = spawned(["sandbox", "--port", "0"], {
      columns: 60,
      env: { TERM: "xterm-256color", NO_COLOR: "1" },
    });
    await running.says(/To list commands[\s\S]*> /);
    const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(running.output()) ?? [];
    // A line of two rows: the redrawing begins one row further up.
    for (const [half, rows] of [
      ["request HX", ""],
      [`alter HX1 note=${"x".repeat(60)}`, "\\x1b\\[1A"],
    ] as const) {
      running.type(half);
      await running.says(half.slice(0, 10));
      await fetch(`${url}/v2/bookings/${half.slice(0, 5)}`);
      // Up to the start of the typed line, clear, the line of the request, and the typed line again.
      await running.says(
        new RegExp(
          `${rows}\\x1b\\[1G\\x1b\\[0J\\S+ <- GET /v2/bookings/${half.slice(0, 5)}: 401\\r\\n[^\\r\\n]*> ${half}`,
        ),
      );
      running.type(half.startsWith("request") ? "1\n" : "y\n");
      await running.says(/booking HX1 is Request/);
    }
    running.type("list\n");
    await running.says(/(?:booking HX1 is Request[\s\S]*){3}/);
    running.type("quit\n");
    expect(await running.ended, running.output()).toBe(0);
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
