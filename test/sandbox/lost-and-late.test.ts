import { describe, expect, it, onTestFinished, vi } from "vitest";
import { InvalidArgumentError } from "../../src/errors.ts";
import { createSandbox, type Sandbox, type SandboxOptions } from "../../src/testing/index.ts";
import { configure, startEndpoint, startSandbox } from "./setup.ts";

const hour = 3_600_000;
const url = "https://subscriber.example/hooks";

/** Makes a sandbox that delivers to a function, and the list of delivered notifications. */
function direct(options: SandboxOptions = {}, answer: (count: number) => Response = () => new Response()) {
  const sandbox = createSandbox(options);
  onTestFinished(() => sandbox.close());
  const received: { number?: number; at: number }[] = [];
  sandbox.deliverTo(async (request) => {
    received.push({ ...((await request.json()) as object), at: sandbox.deliveries.at(-1)!.sentAt.getTime() });
    return answer(received.length);
  });
  return { sandbox, received };
}

/** Sends numbered notifications, and returns the numbers of the dropped ones. */
async function dropped(count: number, options: SandboxOptions) {
  const { sandbox, received } = direct(options);
  for (let number = 0; number < count; number++) void sandbox.send({ number }, { url });
  await sandbox.settled();
  const numbers = (deliveries: Sandbox["deliveries"]) =>
    deliveries.map(({ notification }) => (notification as { number: number }).number);
  const lost = sandbox.deliveries.filter((delivery) => delivery.dropped);
  const arrived = sandbox.deliveries.filter((delivery) => !delivery.dropped);
  expect(received.map(({ number }) => number)).toEqual(numbers(arrived));
  for (const delivery of lost)
    expect(delivery).toMatchObject({ status: undefined, error: "dropped on purpose", duration: 0 });
  return numbers(lost);
}

describe("drop", () => {
  it("loses a share of the deliveries that the seed decides", async () => {
    const lost = await dropped(400, { seed: 1, delivery: { drop: 1 / 3 } });
    expect(lost.length).toBeGreaterThan(100);
    expect(lost.length).toBeLessThan(170);
    expect(await dropped(400, { seed: 1, delivery: { drop: 1 / 3 } })).toEqual(lost);
    expect(await dropped(400, { seed: 2, delivery: { drop: 1 / 3 } })).not.toEqual(lost);
  });

  it("loses all deliveries with 1, and none with 0 or by default", async () => {
    expect(await dropped(5, { delivery: { drop: 1 } })).toEqual([0, 1, 2, 3, 4]);
    expect(await dropped(5, { delivery: { drop: 0 } })).toEqual([]);
    expect(await dropped(5, {})).toEqual([]);
  });

  it("draws each duplicate on its own", async () => {
    const { sandbox, received } = direct({ seed: 1, delivery: { drop: 0.5, duplicates: 1 } });
    for (let number = 0; number < 40; number++) void sandbox.send({ number }, { url });
    await sandbox.settled();
    const lostFirst = sandbox.deliveries.filter((delivery) => delivery.dropped && !delivery.duplicate);
    const saved = lostFirst.filter(({ notification }) =>
      received.some(({ number }) => number === (notification as { number: number }).number),
    );
    expect(saved.length).toBeGreaterThan(3);
    expect(saved.length).toBeLessThan(lostFirst.length);
  });

  it("does not retry a lost delivery, and send() resolves to it", async () => {
    const { sandbox, received } = direct({ delivery: { drop: 1, retry: { schedule: [0, 0] } } });
    expect(await sandbox.send({}, { url })).toMatchObject({ dropped: true, attempt: 1 });
    expect(sandbox.deliveries).toHaveLength(1);
    expect(received).toEqual([]);
  });

  it("does not change the delays of a seed", async () => {
    const delays = async (drop: number) => {
      const { sandbox } = direct({ seed: 3, delivery: { drop, delay: [1, 5000] } });
      for (let number = 0; number < 20; number++) void sandbox.send({ number }, { url });
      await sandbox.advance(5000);
      return sandbox.deliveries.map(({ delay }) => delay).sort((a, b) => a - b);
    };
    expect(await delays(0.5)).toEqual(await delays(0));
  });

  it("can change while the sandbox runs, and leaves the other options", async () => {
    const { sandbox } = direct({ delivery: { duplicates: 1 } });
    sandbox.delivery.set({ drop: 1 });
    expect(sandbox.delivery.current).toEqual({ duplicates: 1, drop: 1 });
    expect(await sandbox.send({}, { url })).toMatchObject({ dropped: true });
    sandbox.delivery.set({ drop: 0 });
    expect(await sandbox.send({}, { url })).toMatchObject({ dropped: false, status: 200 });
    expect(sandbox.deliveries).toHaveLength(4);
    expect(() => sandbox.delivery.set({ drop: 2 })).toThrow(InvalidArgumentError);
    expect(() => sandbox.delivery.set({ drop: 2 })).toThrow("delivery.drop: must be from 0 to 1");
    expect(sandbox.delivery.current).toEqual({ duplicates: 1, drop: 0 });
  });
});

describe("advance", () => {
  it("delivers duplicates that are hours away, each at its time", async () => {
    const { sandbox, received } = direct({
      seed: 1,
      delivery: { duplicates: 1, duplicateAfter: [2 * hour, 6 * hour] },
    });
    const began = Date.now();
    for (let number = 0; number < 5; number++) await sandbox.send({ number }, { url });
    await sandbox.advance(0);
    expect(received).toHaveLength(5);
    await sandbox.advance(2 * hour - 60_000);
    expect(received).toHaveLength(5);
    await sandbox.advance(5 * hour);
    expect(received).toHaveLength(10);
    await sandbox.settled();

    const late = sandbox.deliveries.filter(({ duplicate }) => duplicate);
    for (const { sentAt, delay } of late) {
      expect(delay).toBeGreaterThanOrEqual(2 * hour);
      expect(delay).toBeLessThanOrEqual(6 * hour);
      expect(Math.abs(sentAt.getTime() - began - delay)).toBeLessThan(30_000);
    }
    expect(new Set(late.map(({ delay }) => delay)).size).toBe(5);
    const times = late.map(({ sentAt }) => sentAt.getTime());
    expect(times).toEqual([...times].sort((a, b) => a - b));
  });

  it("retries in the order of the schedule", async () => {
    const { sandbox, received } = direct(
      { delivery: { retry: { schedule: [hour, 2 * hour, 4 * hour] } } },
      (count) => (count < 4 ? new Response(null, { status: 503 }) : new Response()),
    );
    const sending = sandbox.send({}, { url });
    await sandbox.advance(3 * hour + 60_000);
    expect(received).toHaveLength(3);
    await sandbox.advance(4 * hour);
    expect(await sending).toMatchObject({ attempt: 4, status: 200 });
    const [first = 0, ...rest] = received.map(({ at }) => at);
    for (const [index, after] of [1, 3, 7].entries())
      expect(Math.abs((rest[index] ?? 0) - first - after * hour)).toBeLessThan(30_000);
  });

  it("moves the time of later events only", async () => {
    const { sandbox } = direct();
    const client = { authorization: `Bearer ${sandbox.accessToken}` };
    const body = JSON.stringify({ isActive: true, endpoints: { bookings: url } });
    await sandbox.fetch("https://any.example/v2/webhooks/config", { method: "POST", headers: client, body });
    await sandbox.advance(10 * 24 * hour);
    await sandbox.bookings.request();
    await sandbox.settled();
    const { notification, sentAt } = sandbox.deliveries[0]!;
    const timestamp = Date.parse((notification as { timestamp: string }).timestamp);
    for (const time of [timestamp, sentAt.getTime()])
      expect(Math.abs(time - Date.now() - 10 * 24 * hour)).toBeLessThan(30_000);
  });

  it("waits for the answers over the network", async () => {
    const endpoint = await startEndpoint((response) => setTimeout(() => response.end(), 30));
    const sandbox = await startSandbox({ delivery: { delay: hour } });
    await configure(sandbox, endpoint.url);
    await sandbox.bookings.request();
    await sandbox.advance(hour);
    expect(sandbox.deliveries).toMatchObject([{ status: 200, delay: hour }]);
  });

  it("delivers shuffled notifications, and real time still passes", async () => {
    const { sandbox, received } = direct({ delivery: { shuffle: hour } });
    for (let number = 0; number < 3; number++) void sandbox.send({ number }, { url });
    await sandbox.advance(hour);
    expect(received).toHaveLength(3);
    sandbox.delivery.set({ shuffle: 20 });
    await sandbox.send({}, { url });
    expect(received).toHaveLength(4);
  });

  it("leaves the rest of a wait to real time", async () => {
    const { sandbox, received } = direct({ delivery: { delay: hour } });
    const sending = sandbox.send({}, { url });
    await sandbox.advance(hour - 20);
    expect(received).toHaveLength(0);
    expect(await sending).toMatchObject({ status: 200 });
  });

  it.each([-1, Number.NaN, Number.POSITIVE_INFINITY, "1" as never])("refuses %s", async (ms) => {
    await expect(createSandbox().advance(ms)).rejects.toBeInstanceOf(InvalidArgumentError);
  });

  it("ends when the sandbox closes", async () => {
    const { sandbox } = direct({ delivery: { delay: hour } });
    void sandbox.send({}, { url });
    await sandbox.close();
    await sandbox.advance(2 * hour);
    expect(sandbox.deliveries).toEqual([]);
  });
});

it("fake timers bring late duplicates", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const { sandbox, received } = direct({ delivery: { duplicates: 1, duplicateAfter: 3 * hour } });
  await sandbox.send({}, { url });
  await vi.advanceTimersByTimeAsync(3 * hour - 1);
  expect(received).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(1);
  await sandbox.settled();
  expect(received).toHaveLength(2);
});

describe("redeliver", () => {
  it("delivers a dropped event at once, whatever the options", async () => {
    const { sandbox, received } = direct({ delivery: { drop: 1, delay: hour, duplicates: 3 } });
    const eventId = "0b8f7c3e-0000-4000-8000-000000000001";
    void sandbox.send({ eventId, number: 7 }, { url });
    await sandbox.advance(hour);
    expect(received).toEqual([]);
    expect(await sandbox.redeliver(eventId)).toMatchObject({
      eventId,
      url,
      status: 200,
      duplicate: true,
      dropped: false,
      attempt: 1,
    });
    expect(received).toMatchObject([{ eventId, number: 7 }]);
  });

  it("is retried like any delivery", async () => {
    const { sandbox } = direct(
      { delivery: { retry: { schedule: [0] } } },
      (count) => new Response(null, { status: count < 3 ? 500 : 200 }),
    );
    await sandbox.send({ eventId: "e" }, { url });
    expect(await sandbox.redeliver("e")).toMatchObject({ attempt: 1, status: 200 });
    expect(sandbox.deliveries.map(({ status }) => status)).toEqual([500, 500, 200]);
  });

  it("refuses an unknown event id", async () => {
    await expect(createSandbox().redeliver("none")).rejects.toBeInstanceOf(InvalidArgumentError);
  });
});

describe("timeout", () => {
  it("ends an attempt that takes longer", async () => {
    const endpoint = await startEndpoint(() => {});
    const sandbox = await startSandbox({ delivery: { timeout: 40, retry: { schedule: [0] } } });
    const last = await sandbox.send({}, { url: endpoint.url });
    expect(last).toMatchObject({ attempt: 2, status: undefined, error: "no answer within 0.04 s" });
    expect(last.duration).toBeGreaterThanOrEqual(39);
  });

  it("ends a function that ignores its signal", async () => {
    const sandbox = createSandbox({ delivery: { timeout: 20 } });
    sandbox.deliverTo(() => new Promise(() => {}));
    expect(await sandbox.send({}, { url })).toMatchObject({ error: "no answer within 0.02 s" });
  });
});

describe("deliverTo", () => {
  it("passes the request that would have been sent", async () => {
    const sandbox = createSandbox();
    const requests: Request[] = [];
    sandbox.deliverTo((request) => {
      requests.push(request);
      return new Response(null, { status: 204 });
    });
    expect(await sandbox.send({ a: 1 }, { url: `${url}?key=s` })).toMatchObject({ status: 204 });
    const [request] = requests;
    expect(request).toMatchObject({ method: "POST", url: `${url}?key=s` });
    expect(request?.headers.get("content-type")).toBe("application/json");
    expect(await request?.json()).toEqual({ a: 1 });
  });

  it("treats an error of the function as no answer", async () => {
    const sandbox = createSandbox();
    for (const thrown of [new Error("out of order"), "text", undefined]) {
      sandbox.deliverTo(() => Promise.reject(thrown));
      expect(await sandbox.send({}, { url })).toMatchObject({ status: undefined, error: expect.any(String) });
    }
    expect(sandbox.deliveries[0]?.error).toBe("out of order");
  });

  it("returns to the network with undefined, and refuses other values", async () => {
    const endpoint = await startEndpoint();
    const sandbox = createSandbox();
    sandbox.deliverTo(() => new Response(null, { status: 500 }));
    sandbox.deliverTo(undefined);
    expect(await sandbox.send({}, { url: endpoint.url })).toMatchObject({ status: 200 });
    expect(() => sandbox.deliverTo({} as never)).toThrow(InvalidArgumentError);
  });
});
