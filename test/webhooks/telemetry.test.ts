import { createWebhookHandler, forwardTo, memoryStore, type Observation, type Telemetry } from "stayhook";
import type { NewEvent } from "stayhook/store";
import { describe, expect, test, vi } from "vitest";
import { alteredStore, failing, never, sleep } from "../queue/support.ts";
import {
  advance,
  clientOf,
  handlerOf,
  notificationOf,
  platformOf,
  recordingLogger,
  useFakeTime,
} from "./support.ts";

useFakeTime();

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const passing: Telemetry = {
  recorded: () => traceparent,
  process: (_, run) => run(),
  onRequest: () => {},
  onResponse: () => {},
};

const hangs = (_: unknown, run: () => unknown) => {
  run();
  return never();
};
const fails = (): never => {
  throw new Error("no collector");
};

/** Makes a handler that gives its telemetry to its client, too. `said` returns the log lines about the telemetry. */
function tracedHandler(telemetry: Telemetry) {
  const fallback = vi.fn();
  const logger = recordingLogger();
  const handler = handlerOf({
    ...{ telemetry, logger, on: { fallback } },
    clientOf: (platform) => clientOf(platform, { telemetry, logger }),
  });
  handler.platform.booking("HX3K9", "Confirmed");
  const said = () => logger.lines.filter((line) => line.includes("telemetry"));
  return { ...handler, fallback, said };
}

test("the handler calls each function, with what it promises", async () => {
  const calls: string[] = [];
  const seen: unknown[] = [];
  const observations: Observation[] = [];
  const added = vi.fn();
  const { webhooks, platform, deliver, store } = handlerOf({
    autoStart: false,
    on: { fallback: () => void calls.push("callback") },
    telemetry: {
      recorded: (event, adding) => {
        seen.push(event);
        void adding.then(added);
        return traceparent;
      },
      async process(event, run) {
        seen.push(event);
        calls.push("process");
        const result = await run();
        calls.push("processed");
        seen.push(result);
        return result;
      },
      observe: (observation) => void observations.push(observation),
    },
  });
  platform.booking("HX3K9", "Confirmed");
  const body = notificationOf({ bookingCode: "HX3K9" });
  await deliver(body);
  await deliver(body);
  await webhooks.drain();
  expect(calls).toEqual(["process", "callback", "processed"]);
  const { eventId } = body;
  const event = { eventId, ref: "booking:HX3K9", source: "webhook", topic: null };
  expect(seen).toMatchObject([
    event,
    event,
    { ...event, traceparent, attempts: 1 },
    { outcome: "done", type: "booking.Confirmed" },
  ]);
  expect(added.mock.calls).toEqual([["added"], ["duplicate"]]);
  expect(observations.map(({ kind }) => kind)).toEqual(["received", "duplicate", "started", "done"]);
  expect(await store.get(eventId)).toMatchObject({ traceparent });
});

test("observe gets the time of receipt with each attempt, and how long it took at its end", async () => {
  const answers = [500, 404, 200];
  const { webhooks, platform, deliver, observed, store } = handlerOf({ autoStart: false, maxAttempts: 2 });
  platform.answer("HX3K9", () => {
    vi.advanceTimersByTime(30);
    return { status: answers.shift() ?? 200, body: { bookingCode: "HX3K9", status: "Confirmed" } };
  });
  const { eventId } = notificationOf();
  await deliver(notificationOf({ eventId, bookingCode: "HX3K9" }));
  const { receivedAt } = (await store.get(eventId))!;
  for (let drains = 0; drains < 5; drains++) {
    await webhooks.drain();
    await advance(60_000);
  }
  const about = { eventId, ref: "booking:HX3K9", receivedAt, firstDueAt: receivedAt };
  const attempts = observed.filter((each) => "receivedAt" in each);
  expect(attempts).toEqual([
    { kind: "started", attempt: 1, ...about },
    expect.objectContaining({ kind: "failed", reason: "unavailable", attempt: 1, duration: 30, ...about }),
    { kind: "started", attempt: 1, ...about },
    expect.objectContaining({ kind: "failed", reason: "not-found", attempt: 1, duration: 30, ...about }),
    { kind: "started", attempt: 1, ...about },
    expect.objectContaining({ kind: "done", attempt: 1, duration: 30, ...about }),
  ]);
});

describe("a telemetry that fails costs no event", () => {
  const broken: Record<string, Partial<Record<keyof Telemetry, unknown>>> = {
    "recorded throws": { recorded: fails },
    "recorded is asynchronous and rejects": { recorded: async () => fails() },
    "process throws": { process: fails },
    "process rejects": { process: async () => fails() },
    "process never resolves": { process: hangs },
    "process fails after the attempt": {
      process: async (_: unknown, run: () => Promise<unknown>) => {
        await run();
        fails();
      },
    },
    "onRequest throws": { onRequest: fails },
    "onRequest never resolves": { onRequest: never },
    "onResponse rejects": { onResponse: async () => fails() },
    "observe throws": { observe: fails },
    "observe rejects": { observe: async () => fails() },
    "watch throws": { watch: fails },
    "watch gives a function that throws": { watch: () => fails },
    "all is missing": { recorded: undefined, process: undefined, onRequest: undefined },
  };
  const silent = ["process never resolves", "onRequest never resolves", "all is missing"];

  test.each(Object.entries(broken))("%s", async (name, functions) => {
    const telemetry = { ...passing, ...functions } as Telemetry;
    const { webhooks, platform, deliver, store, fallback, said } = tracedHandler(telemetry);
    for (let count = 1; count <= 3; count++) {
      expect((await deliver(notificationOf({ bookingCode: "HX3K9" }))).status).toBe(200);
      await advance(100);
      expect(await store.counts()).toMatchObject({ done: count });
    }
    expect(fallback).toHaveBeenCalledTimes(3);
    expect(platform.reads).toHaveLength(3);
    await webhooks.close();
    const lines = said().filter((line) => !line.includes("left out"));
    expect(lines).toHaveLength(silent.includes(name) ? 0 : 1);
    for (const line of lines) expect(line).toMatch(/the telemetry .* failed: Error: no collector$/);
  });

  test("it is warned of once a minute, with the number of lines left out", async () => {
    const { deliver, said } = tracedHandler({ ...passing, observe: fails });
    await deliver(notificationOf());
    await advance(50_000);
    await deliver(notificationOf());
    expect(said()).toHaveLength(1);
    await advance(20_000);
    await deliver(notificationOf());
    expect(said().slice(1)).toEqual([expect.stringContaining("(5 similar lines were left out)")]);
  });

  test("process that never calls run holds an attempt up for a second, not longer", async () => {
    const { deliver, store, said } = tracedHandler({ ...passing, process: never });
    await deliver(notificationOf({ bookingCode: "HX3K9" }));
    await advance(990);
    expect(await store.counts()).toMatchObject({ processing: 1 });
    await advance(20);
    expect(await store.counts()).toMatchObject({ done: 1 });
    expect(said()).toEqual([
      expect.stringContaining(
        "`process` failed: Error: the telemetry function did not call `run` within 1000 ms",
      ),
    ]);
  });

  test("a failure of the store rejects no promise that nobody handles", async () => {
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    const store = alteredStore(memoryStore(), { add: failing() });
    const { deliver } = handlerOf({ store, telemetry: passing });
    expect((await deliver(notificationOf())).status).toBe(503);
    vi.useRealTimers();
    await sleep(5);
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });

  test("an attempt runs once, whatever process makes of it", async () => {
    const fallback = vi.fn();
    const telemetry: Telemetry = {
      ...passing,
      process: async (_, run) => {
        await Promise.resolve();
        await run();
        return { ...(await run()), outcome: "lost" };
      },
    };
    const { webhooks, deliver, logger } = handlerOf({ autoStart: false, telemetry, on: { fallback } });
    await deliver(notificationOf());
    expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 });
    expect(fallback).toHaveBeenCalledOnce();
    expect(logger.lines).toEqual([]);
  });

  test.each(["", "00 01", "ü", "x".repeat(300), 7])("the traceparent %j is not kept", async (given) => {
    const telemetry = { ...passing, recorded: () => given as string };
    const { deliver, store } = handlerOf({ autoStart: false, telemetry });
    const { eventId } = notificationOf();
    expect((await deliver(notificationOf({ eventId }))).status).toBe(200);
    expect(await store.get(eventId)).toMatchObject({ traceparent: null });
  });
});

test("an event that is forwarded to another queue takes its traceparent along", async () => {
  const sent: NewEvent[] = [];
  const processed: unknown[] = [];
  const platform = platformOf();
  const webhooks = createWebhookHandler({
    client: clientOf(platform),
    store: forwardTo((event) => void sent.push(event)),
    on: {},
    telemetry: {
      ...passing,
      process: async (event, run) => {
        const result = await run();
        processed.push([event.traceparent, result.outcome, result.reason]);
        return result;
      },
    },
    logger: () => {},
  });
  const body = JSON.stringify(notificationOf({ bookingCode: "HX3K9" }));
  await webhooks.fetch(new Request("https://h.example/", { method: "POST", body }));
  expect(sent).toMatchObject([{ traceparent }]);
  platform.answer("HX3K9", { status: 500 });
  await expect(webhooks.process(JSON.stringify(sent[0]))).rejects.toThrow("500");
  platform.booking("HX3K9", "Confirmed");
  expect(await webhooks.process(sent[0]!)).toMatchObject({ status: "Confirmed" });
  platform.answer("HX3K9", { status: 403 });
  await expect(webhooks.process(sent[0]!, { attempt: 5 })).rejects.toThrow("403");
  expect(processed).toEqual([
    [traceparent, "retrying", "unavailable"],
    [traceparent, "done", undefined],
    [traceparent, "parked", "denied"],
  ]);
});

test("the client describes a request without a secret", async () => {
  const onRequest = vi.fn();
  const platform = platformOf();
  platform.booking("secret-token", "Confirmed");
  await clientOf(platform, { telemetry: { onRequest } }).bookings.get("secret-token");
  const url = "https://platform.example/v2/bookings/[redacted]";
  expect(onRequest.mock.calls).toMatchObject([[{ route: "/v2/bookings/{bookingCode}", url }]]);
});

describe("an option `telemetry` that is none throws", () => {
  const wrong: [unknown, string][] = [
    ["otel", "telemetry: must be an object, such as the result of telemetry()"],
    [null, "telemetry: must be an object, such as the result of telemetry()"],
    [{ ...passing, process: "x" }, "telemetry: `process` must be a function"],
    [{ ...passing, onRequest: 1 }, "telemetry: `onRequest` must be a function"],
  ];
  test.each(wrong)("%j", (telemetry, message) => {
    expect(() => handlerOf({ telemetry: telemetry as never })).toThrow(message);
    expect(() => clientOf(platformOf(), { telemetry: telemetry as never })).toThrow(message);
  });
});
