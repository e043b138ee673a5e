import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { installed } from "../../package/support/consumer.ts";
import { manifest } from "../../package/support/pack.ts";
import { eventually } from "../../support/eventually.ts";
import { expected } from "./expected.ts";
import { platforms } from "./platforms.ts";
import { bundleWorker, startWorkerd } from "./workerd.ts";

let script: string;
beforeAll(async () => {
  const consumer = await installed();
  // No nodejs_compat, and no Node module is external: the core must work without Node.
  script = await bundleWorker(consumer, {
    paths: ["test/heavy/runtimes/worker.ts", "test/heavy/runtimes/probe.ts"],
  });
});

test("Workers: the client and the handler do what they do elsewhere", async () => {
  await using peers = await platforms();
  await using workerd = await startWorkerd(script);
  const response = await fetch(workerd.url, { method: "POST", body: JSON.stringify(peers.options) });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  expect(JSON.parse(text)).toEqual(expected);
  const agents = new Set(peers.whims.requests.map(({ headers }) => headers["user-agent"]));
  expect([...agents]).toEqual([`stayhook/${manifest.version}`]);
});

test("Workers: requests at the same time, each with a handler of its own, handle each event once", async () => {
  await using peers = await platforms();
  await using workerd = await startWorkerd(script);
  await (await fetch(workerd.url, { method: "POST", body: JSON.stringify(peers.options) })).text();
  const hooks = new URL("/hooks", workerd.url);
  const eventIds = Array.from({ length: 20 }, () => randomUUID());
  const answers = await Promise.all(
    [...eventIds, ...eventIds].map(async (eventId, index) => {
      const bookingCode = index % 2 === 0 ? "HX3K9" : "HX3K7";
      const body = JSON.stringify({
        eventId,
        timestamp: "2026-05-01T12:00:00Z",
        bookingCode,
        listingId: null,
      });
      return (await fetch(hooks, { method: "POST", body })).status;
    }),
  );
  expect(answers).toEqual(Array(40).fill(200));
  await eventually(async () => {
    const told = await (await fetch(new URL("/calls", workerd.url))).json();
    const { calls, unfinished } = told as { calls: string[]; unfinished: string[] };
    expect(calls.sort()).toEqual(eventIds.toSorted());
    expect(unfinished).toEqual([]);
  });
  expect(workerd.output).not.toMatch(/different request|hung|never generate a response/i);
});
