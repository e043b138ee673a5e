import { describe, expect, it, onTestFinished, vi } from "vitest";
import { InvalidArgumentError } from "../../src/errors.ts";
import type { SandboxDeliveryOptions } from "../../src/sandbox/options.ts";
import { createSandbox, type SandboxDelivery, type SandboxOptions } from "../../src/testing/index.ts";
import { configure, startEndpoint, startSandbox } from "./setup.ts";

const hour = 3_600_000;
const url = "https://subscriber.example/hooks";

/** Makes a sandbox that delivers to a function, and a list of the numbers that the function received. */
function direct(
  options: SandboxOptions = {},
  answer: (count: number) => Response | Promise<Response> = () => new Response(),
) {
  const sandbox = createSandbox(options);
  onTestFinished(() => sandbox.close());
  const received: number[] = [];
  sandbox.deliverTo(async (request) => {
    received.push(((await request.json()) as { number: number }).number);
    return answer(received.length);
  });
  const send = (count: number) => {
    for (let number = 0; number < count; number++) void sandbox.send({ number }, { url });
  };
  return { sandbox, received, send };
}

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index);
const numberOf = ({ notification }: SandboxDelivery) => (notification as { number: number }).number;
const ascending = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b);

/** Delivers numbered notifications, and skips all waits. Returns the deliveries in their order. */
async function deliver(count: number, options: SandboxOptions) {
  const { sandbox, received, send } = direct(options);
  send(count);
  await sandbox.advance(24 * hour);
  const arrived = sandbox.deliveries.filter(({ dropped }) => !dropped);
  expect(received).toEqual(arrived.map(numberOf));
  expect(new Set(sandbox.deliveries.map(numberOf)).size).toBe(count);
  return sandbox.deliveries;
}

describe("the seed decides", () => {
  const order = (deliveries: readonly SandboxDelivery[]) => deliveries.map(numberOf);
  const losses = (deliveries: readonly SandboxDelivery[]) => deliveries.map(({ dropped }) => dropped);
  const delays = (deliveries: readonly SandboxDelivery[]) => ascending(deliveries.map(({ delay }) => delay));

  it.each<[string, SandboxDeliveryOptions, (deliveries: readonly SandboxDelivery[]) => unknown]>([
    ["the order with shuffle: true", { shuffle: true }, order],
    ["the order with shuffle: 20", { shuffle: 20 }, order],
    ["the order with shuffle: 0", { shuffle: 0 }, order],
    ["which deliveries are lost", { drop: 1 / 3 }, losses],
    ["the delay of each delivery", { delay: [50, 5000], duplicates: 1 }, delays],
    ["the delay of each duplicate", { duplicates: 1, duplicateAfter: [1, hour] }, delays],
  ])("%s", async (_, delivery, shown) => {
    const drawn = async (seed: number) => shown(await deliver(20, { seed, delivery }));
    const first = await drawn(3);
    expect(first).not.toEqual(upTo(20));
    expect(await drawn(3)).toEqual(first);
    expect(await drawn(4)).not.toEqual(first);
  });

  it("the event ids, whatever the configuration", async () => {
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

  it("the delays, whatever is lost", async () => {
    const drawn = (drop: number) =>
      deliver(20, { seed: 3, delivery: { drop, delay: [1, "5s"] } }).then(delays);
    const some = await drawn(0.5);
    expect(some).toEqual(await drawn(0));
    expect(new Set(some).size).toBeGreaterThan(10);
    expect(some[0]).toBeGreaterThanOrEqual(1);
    expect(some.at(-1)).toBeLessThanOrEqual(5000);
  });
});

it.each([[{}], [{ shuffle: false, drop: 0, duplicates: 0 }]])(
  "with %j, each notification arrives once, in order and at once",
  async (delivery) => {
    const { sandbox, received, send } = direct({ seed: 3, delivery });
    send(20);
    await sandbox.settled();
    expect(received).toEqual(upTo(20));
  },
);

describe("duplicates", () => {
  it("deliver each notification so many more times", async () => {
    const { sandbox } = direct({ delivery: { duplicates: 2 } });
    for (const eventId of ["a", "b"]) void sandbox.send({ eventId }, { url });
    await sandbox.settled();
    const shown = sandbox.deliveries.map(({ eventId, duplicate }) => `${eventId} ${duplicate}`);
    expect(shown).toEqual(["a false", "a true", "a true", "b false", "b true", "b true"]);
  });

  it("are separated by shuffle", async () => {
    const deliveries = await deliver(10, { seed: 3, delivery: { shuffle: 0, duplicates: 1 } });
    const numbers = deliveries.map(numberOf);
    expect(numbers.some((number, index) => index % 2 === 0 && numbers[index + 1] !== number)).toBe(true);
  });
});

describe("drop", () => {
  it("loses a share of the deliveries, and draws each duplicate on its own", async () => {
    const deliveries = await deliver(200, { seed: 1, delivery: { drop: 1 / 3, duplicates: 1 } });
    const lost = deliveries.filter(({ dropped }) => dropped);
    expect(lost.length).toBeGreaterThan(100);
    expect(lost.length).toBeLessThan(170);
    for (const delivery of lost)
      expect(delivery).toMatchObject({ status: undefined, error: "dropped on purpose", duration: 0 });
    const lostFirst = lost.filter(({ duplicate }) => !duplicate).map(numberOf);
    const lostAgain = lost.filter(({ duplicate }) => duplicate).map(numberOf);
    const lostTwice = lostFirst.filter((number) => lostAgain.includes(number));
    expect(lostTwice.length).toBeGreaterThan(3);
    expect(lostTwice.length).toBeLessThan(lostFirst.length);
  });

  it("does not retry a lost delivery, and send() resolves to it", async () => {
    const { sandbox, received } = direct({ delivery: { drop: 1, retry: { schedule: [0, 0] } } });
    expect(await sandbox.send({}, { url })).toMatchObject({ dropped: true, attempt: 1 });
    expect(sandbox.deliveries).toHaveLength(1);
    expect(received).toEqual([]);
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

describe("retry", () => {
  it("delivers again after each wait of the schedule until the answer is 200", async () => {
    const { sandbox, received } = direct(
      { delivery: { retry: { schedule: [hour, 2 * hour, 4 * hour, 8 * hour] } } },
      (count) => new Response(null, { status: count < 4 ? 503 : 200 }),
    );
    const sending = sandbox.send({ eventId: "e" }, { url });
    await sandbox.advance(3 * hour + 60_000);
    expect(received).toHaveLength(3);
    await sandbox.advance(20 * hour);
    expect(await sending).toMatchObject({ attempt: 4, status: 200 });
    const began = sandbox.deliveries[0]!.sentAt.getTime();
    expect(
      sandbox.deliveries.map(({ eventId, attempt, status, sentAt }) => [
        `${eventId} ${attempt} ${status}`,
        Math.round((sentAt.getTime() - began) / hour),
      ]),
    ).toEqual([
      ["e 1 503", 0],
      ["e 2 503", 1],
      ["e 3 503", 3],
      ["e 4 200", 7],
    ]);
  });

  it.each([201, 202, 204, 299, 404, 410, 500])(
    "treats %i as a failure, because only 200 is success, and ends with the schedule",
    async (status) => {
      const { sandbox } = direct({}, () => new Response(null, { status }));
      expect(await sandbox.send({}, { url })).toMatchObject({ attempt: 1, status });
      sandbox.delivery.set({ retry: { schedule: [0, 0] } });
      expect(await sandbox.send({}, { url })).toMatchObject({ attempt: 3, status });
      expect(sandbox.deliveries).toHaveLength(4);
    },
  );

  it("does not follow a redirect", async () => {
    const endpoint = await startEndpoint((response) => response.writeHead(307, { location: "/there" }).end());
    const sandbox = await startSandbox();
    expect(await sandbox.send({}, { url: `${endpoint.url}/here` })).toMatchObject({ status: 307 });
    expect(endpoint.received.map(({ path }) => path)).toEqual(["/here"]);
  });

  it("reports why there was no answer", async () => {
    const endpoint = await startEndpoint((response) => response.destroy());
    const sandbox = await startSandbox({ delivery: { retry: { schedule: [1] } } });
    const error = expect.stringMatching(/./);
    const last = await sandbox.send({}, { url: endpoint.url });
    expect(last).toMatchObject({ attempt: 2, status: undefined, error });
    await endpoint.close();
    expect((await sandbox.send({}, { url: endpoint.url })).error).toContain("ECONNREFUSED");
  });
});

describe("timeout", () => {
  it.each([
    [undefined, 30_000, "30 s"],
    [40, 40, "0.04 s"],
  ])(
    "of %s ends a function that ignores its signal after %i ms, and a retry follows",
    async (timeout, ms, text) => {
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
      onTestFinished(() => void vi.useRealTimers());
      const { sandbox } = direct(
        { delivery: { timeout, retry: { schedule: [0] } } },
        () => new Promise(() => {}),
      );
      const sending = sandbox.send({}, { url });
      await vi.advanceTimersByTimeAsync(ms - 1);
      expect(sandbox.deliveries).toMatchObject([{ error: undefined }]);
      await vi.advanceTimersByTimeAsync(1 + ms);
      const error = `no answer within ${text}`;
      expect(await sending).toMatchObject({ attempt: 2, status: undefined, error, duration: ms });
    },
  );
});

describe("advance", () => {
  it("delivers duplicates that are hours away, each at its time", async () => {
    const duplicateAfter = [2 * hour, 6 * hour] as const;
    const { sandbox, received } = direct({ seed: 1, delivery: { duplicates: 1, duplicateAfter } });
    const began = Date.now();
    for (let number = 0; number < 5; number++) await sandbox.send({ number }, { url });
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
    const times = late.map(({ sentAt }) => sentAt.getTime());
    expect(times).toEqual(ascending(times));
  });

  it("moves the time of later events only", async () => {
    const { sandbox } = direct();
    const headers = { authorization: `Bearer ${sandbox.accessToken}` };
    const body = JSON.stringify({ isActive: true, endpoints: { bookings: url } });
    await sandbox.fetch("https://any.example/v2/webhooks/config", { method: "POST", headers, body });
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

  it("leaves the rest of a wait, and later waits, to real time", async () => {
    const { sandbox, received } = direct({ delivery: { delay: hour } });
    const sending = sandbox.send({}, { url });
    await sandbox.advance(hour - 20);
    expect(received).toHaveLength(0);
    expect(await sending).toMatchObject({ status: 200 });
    sandbox.delivery.set({ delay: 0, shuffle: 5 });
    for (let round = 0; round < 2; round++)
      expect(await sandbox.send({}, { url })).toMatchObject({ status: 200 });
  });

  it.each([-1, Number.NaN, Number.POSITIVE_INFINITY, "1" as never])("refuses %s", async (ms) => {
    await expect(createSandbox().advance(ms)).rejects.toBeInstanceOf(InvalidArgumentError);
  });

  it("waits for deliveries that a shuffle of 0 ms collects", async () => {
    const { sandbox, received, send } = direct({ delivery: { shuffle: 0 } });
    send(2);
    await sandbox.advance(0);
    expect(received).toHaveLength(2);
  });

  it("ends when the sandbox closes", async () => {
    const { sandbox, send } = direct({ delivery: { delay: hour } });
    send(1);
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
    void sandbox.send({ eventId: "e", number: 7 }, { url });
    await sandbox.advance(hour);
    expect(received).toEqual([]);
    const again = { eventId: "e", url, status: 200, duplicate: true, dropped: false, attempt: 1 };
    expect(await sandbox.redeliver("e")).toMatchObject(again);
    expect(received).toEqual([7]);
  });

  it("is retried like any delivery", async () => {
    const { sandbox } = direct(
      { delivery: { retry: { schedule: [0] } } },
      (count) => new Response(null, { status: count < 4 ? 500 : 200 }),
    );
    await sandbox.send({ eventId: "e" }, { url });
    expect(await sandbox.redeliver("e")).toMatchObject({ attempt: 2, status: 200 });
  });

  it("refuses an unknown event id", async () => {
    await expect(createSandbox().redeliver("none")).rejects.toBeInstanceOf(InvalidArgumentError);
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

it("at most 50 deliveries run at once, and all arrive", async () => {
  let open = 0;
  let most = 0;
  const { sandbox, received, send } = direct({}, async () => {
    most = Math.max(most, ++open);
    await new Promise((resolve) => setTimeout(resolve, 5));
    open--;
    return new Response();
  });
  send(300);
  await sandbox.settled();
  expect(received).toHaveLength(300);
  expect(most).toBe(50);
});

it("logs deliveries without their URLs, which may hold secrets", async () => {
  const lines: string[] = [];
  const to = (level: string) => (message: string) => void lines.push(`${level} ${message}`);
  const logger = { debug: to("debug"), info: to("info"), warn: to("warn"), error: to("error") };
  const { sandbox } = direct({ logger }, (count) => new Response(null, { status: count === 1 ? 200 : 500 }));
  for (const eventId of ["e1", "e2"]) await sandbox.send({ eventId }, { url: `${url}?key=s3cret` });
  expect(lines).toEqual([
    expect.stringMatching(/^debug .*e1.*200$/),
    expect.stringMatching(/^warn .*e2.*500$/),
  ]);
  expect(lines.join()).not.toContain("s3cret");
});
