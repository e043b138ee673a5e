import { describe, expect, it, vi } from "vitest";
import { createSandbox, type SandboxOptions } from "../../src/testing/index.ts";
import { configure, startEndpoint, startSandbox } from "./setup.ts";

/** Delivers numbered notifications to an endpoint that answers 200. Returns the numbers in the order of arrival. */
async function deliver(count: number, options: SandboxOptions) {
  const endpoint = await startEndpoint();
  const sandbox = await startSandbox(options);
  for (let number = 0; number < count; number++) void sandbox.send({ number }, { url: endpoint.url });
  await sandbox.settled();
  const numbers = sandbox.deliveries.map(({ notification }) => (notification as { number: number }).number);
  const received = endpoint.notifications().map(({ number }) => number as number);
  expect(received.sort((a, b) => a - b)).toEqual([...numbers].sort((a, b) => a - b));
  return { sandbox, endpoint, numbers };
}

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index);

describe("duplicates", () => {
  it("deliver each notification so many more times", async () => {
    const { sandbox, numbers } = await deliver(3, { delivery: { duplicates: 2 } });
    expect(numbers).toEqual([0, 0, 0, 1, 1, 1, 2, 2, 2]);
    expect(sandbox.deliveries.map(({ duplicate }) => duplicate)).toEqual(
      [0, 1, 2].flatMap(() => [false, true, true]),
    );
  });

  it("have the event id of the first delivery", async () => {
    const endpoint = await startEndpoint();
    const sandbox = await startSandbox({ delivery: { duplicates: 1 } });
    await configure(sandbox, endpoint.url);
    await sandbox.bookings.request();
    await sandbox.settled();
    const [one, other] = endpoint.notifications();
    expect(endpoint.received).toHaveLength(2);
    expect(other).toEqual(one);
    expect(sandbox.deliveries.map(({ eventId }) => eventId)).toEqual([one?.eventId, one?.eventId]);
  });
});

it("the event ids of a seed do not depend on the configuration", async () => {
  const lastId = async (early: boolean) => {
    const endpoint = await startEndpoint();
    const sandbox = await startSandbox({ seed: 5 });
    if (early) await configure(sandbox, endpoint.url);
    const { bookingCode } = await sandbox.bookings.request();
    if (!early) await configure(sandbox, endpoint.url);
    await sandbox.bookings.approve(bookingCode);
    await sandbox.settled();
    return sandbox.deliveries.at(-1)?.eventId;
  };
  expect(await lastId(false)).toBe(await lastId(true));
});

describe("shuffle", () => {
  it.each([true, 20, 0])(
    "(%s) sends collected deliveries in an order that the seed decides",
    async (shuffle) => {
      const { numbers } = await deliver(20, { seed: 3, delivery: { shuffle } });
      expect(numbers).not.toEqual(upTo(20));
      expect([...numbers].sort((a, b) => a - b)).toEqual(upTo(20));
      expect((await deliver(20, { seed: 3, delivery: { shuffle } })).numbers).toEqual(numbers);
      expect((await deliver(20, { seed: 4, delivery: { shuffle } })).numbers).not.toEqual(numbers);
    },
  );

  it("separates duplicates", async () => {
    const { numbers } = await deliver(10, { seed: 3, delivery: { shuffle: 0, duplicates: 1 } });
    const apart = numbers.filter((number, index) => index % 2 === 0 && numbers[index + 1] !== number);
    expect(apart.length).toBeGreaterThan(0);
  });

  it("collects again after it has sent deliveries", async () => {
    const endpoint = await startEndpoint();
    const sandbox = await startSandbox({ delivery: { shuffle: 5 } });
    for (let round = 0; round < 2; round++) {
      expect(await sandbox.send({ round }, { url: endpoint.url })).toMatchObject({ status: 200 });
    }
  });

  it("is off by default and with false", async () => {
    expect((await deliver(20, { seed: 3, delivery: { shuffle: false } })).numbers).toEqual(upTo(20));
    expect((await deliver(20, { seed: 3 })).numbers).toEqual(upTo(20));
  });
});

describe("delay", () => {
  it("waits before each delivery", async () => {
    const started = Date.now();
    const { sandbox } = await deliver(2, { delivery: { delay: 60 } });
    for (const { sentAt } of sandbox.deliveries)
      expect(sentAt.getTime() - started).toBeGreaterThanOrEqual(59);
  });

  it("is drawn for each delivery from the seed", async () => {
    const delays = async (seed: number) => {
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
      const sandbox = createSandbox({ seed, delivery: { delay: [50, 5000], duplicates: 1 } });
      const started = Date.now();
      // The connection is refused. The test only needs the time of the attempt.
      for (let count = 0; count < 5; count++) void sandbox.send({}, { url: "http://127.0.0.1:1/" });
      await vi.advanceTimersByTimeAsync(5000);
      vi.useRealTimers();
      await sandbox.close();
      return sandbox.deliveries.map(({ sentAt }) => sentAt.getTime() - started);
    };
    const first = await delays(5);
    expect(first).toHaveLength(10);
    expect(new Set(first).size).toBeGreaterThan(5);
    expect(Math.min(...first)).toBeGreaterThanOrEqual(50);
    expect(Math.max(...first)).toBeLessThanOrEqual(5000);
    expect(await delays(5)).toEqual(first);
    expect(await delays(6)).not.toEqual(first);
  });
});

describe("retry", () => {
  const schedule = [10, 20];

  it("delivers again after each wait until the answer is 200", async () => {
    let count = 0;
    const endpoint = await startEndpoint((response) => response.writeHead(++count < 3 ? 503 : 200).end());
    const sandbox = await startSandbox({ delivery: { retry: { schedule: [10, 20, 30] } } });
    await configure(sandbox, endpoint.url);
    await sandbox.bookings.request();
    await sandbox.settled();
    expect(sandbox.deliveries.map(({ attempt, status }) => [attempt, status])).toEqual([
      [1, 503],
      [2, 503],
      [3, 200],
    ]);
    expect(new Set(sandbox.deliveries.map(({ eventId }) => eventId)).size).toBe(1);
    const [first, second, third] = sandbox.deliveries.map(({ sentAt }) => sentAt.getTime());
    expect(second! - first!).toBeGreaterThanOrEqual(9);
    expect(third! - second!).toBeGreaterThanOrEqual(19);
  });

  it("ends with the schedule, and send() resolves to the last attempt", async () => {
    const endpoint = await startEndpoint((response) => response.writeHead(500).end());
    const sandbox = await startSandbox({ delivery: { retry: { schedule } } });
    expect(await sandbox.send({}, { url: endpoint.url })).toMatchObject({ attempt: 3, status: 500 });
    expect(endpoint.received).toHaveLength(3);
  });

  it.each([201, 202, 204, 299, 404, 410])(
    "treats %i as a failure, because only 200 is success",
    async (status) => {
      const endpoint = await startEndpoint((response) => response.writeHead(status).end());
      const sandbox = await startSandbox({ delivery: { retry: { schedule: [1] } } });
      expect(await sandbox.send({}, { url: endpoint.url })).toMatchObject({ attempt: 2, status });
    },
  );

  it("does not follow a redirect", async () => {
    const endpoint = await startEndpoint((response) => response.writeHead(307, { location: "/there" }).end());
    const sandbox = await startSandbox({ delivery: { retry: { schedule: [1] } } });
    expect(await sandbox.send({}, { url: `${endpoint.url}/here` })).toMatchObject({
      attempt: 2,
      status: 307,
    });
    expect(endpoint.received.map(({ path }) => path)).toEqual(["/here", "/here"]);
  });

  it("reports why there was no answer", async () => {
    const endpoint = await startEndpoint((response) => response.destroy());
    const sandbox = await startSandbox({ delivery: { retry: { schedule: [1] } } });
    expect(await sandbox.send({}, { url: endpoint.url })).toMatchObject({
      attempt: 2,
      status: undefined,
      error: expect.stringMatching(/./),
    });
    await endpoint.close();
    expect((await sandbox.send({}, { url: endpoint.url })).error).toContain("ECONNREFUSED");
  });

  it("waits 30 s for an answer", async () => {
    const endpoint = await startEndpoint(() => {});
    const sandbox = await startSandbox({ delivery: { retry: { schedule: [1] } } });
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const sending = sandbox.send({}, { url: endpoint.url });
      await vi.waitFor(() => expect(endpoint.received).toHaveLength(1), { interval: 0 });
      await vi.advanceTimersByTimeAsync(29_999);
      expect(sandbox.deliveries[0]?.error).toBeUndefined();
      vi.advanceTimersByTime(1);
      vi.useRealTimers();
      await vi.waitFor(() => expect(endpoint.received).toHaveLength(2));
      expect(sandbox.deliveries[0]).toMatchObject({ status: undefined, error: "no answer within 30 s" });
      await sandbox.close();
      expect(await sending).toMatchObject({ attempt: 2, error: "the sandbox was closed" });
    } finally {
      vi.useRealTimers();
    }
  });

  it("is off by default", async () => {
    const endpoint = await startEndpoint((response) => response.writeHead(503).end());
    const sandbox = await startSandbox();
    expect(await sandbox.send({}, { url: endpoint.url })).toMatchObject({ attempt: 1, status: 503 });
    expect(endpoint.received).toHaveLength(1);
  });
});

it("at most 50 deliveries run at once, and all arrive", async () => {
  let open = 0;
  let most = 0;
  const endpoint = await startEndpoint((response) => {
    most = Math.max(most, ++open);
    setTimeout(() => {
      open--;
      response.end();
    }, 5);
  });
  const sandbox = await startSandbox();
  for (let count = 0; count < 300; count++) void sandbox.send({ count }, { url: endpoint.url });
  await sandbox.settled();
  expect(endpoint.received).toHaveLength(300);
  expect(most).toBeGreaterThan(1);
  expect(most).toBeLessThanOrEqual(50);
  expect(sandbox.deliveries.every(({ status }) => status === 200)).toBe(true);
});

it("logs deliveries without their URLs, which may hold secrets", async () => {
  const lines: string[] = [];
  const to =
    (level: string) =>
    (message: string, ...details: unknown[]) =>
      lines.push(`${level} ${[message, ...details].join(" ")}`);
  const logger = { debug: to("debug"), info: to("info"), warn: to("warn"), error: to("error") };
  const endpoint = await startEndpoint((response, { path }) =>
    response.writeHead(path?.startsWith("/bad") ? 500 : 200).end(),
  );
  const sandbox = await startSandbox({ logger });
  await sandbox.send({ eventId: "e1" }, { url: `${endpoint.url}/good?key=s3cret` });
  await sandbox.send({ eventId: "e2" }, { url: `${endpoint.url}/bad?key=s3cret` });
  expect(lines).toEqual([
    expect.stringMatching(/^debug .*e1.*200$/),
    expect.stringMatching(/^warn .*e2.*500$/),
  ]);
  expect(lines.join()).not.toContain("s3cret");
});
