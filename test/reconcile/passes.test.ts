import { setTimeout as sleep } from "node:timers/promises";
import type { StayhookClient } from "stayhook";
import type { Sandbox } from "stayhook/testing";
import { describe, expect, test, vi } from "vitest";
import { Gates } from "../../src/queue/gates.ts";
import { Reader, StopReason } from "../../src/reconcile/reader.ts";
import { dueIn, readState, writeState } from "../../src/reconcile/state.ts";
import { eventually } from "../support/eventually.ts";
import { machineOf, readsOf, scene, startSandbox, stateIn, stopClock, stores } from "./support.ts";

const memory = () => stores.memory!()();
const everyBooking = "GET /v2/bookings/{bookingCode}";

/** Makes bookings that the subscriber then handles. */
async function known(sandbox: Sandbox, machine: ReturnType<typeof machineOf>, count: number) {
  const codes: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const { bookingCode } = await sandbox.bookings.create({ status: "Request", bookingCode: `B${n + 10}` });
    await machine.notify({ bookingCode });
    codes.push(bookingCode);
  }
  await machine.webhooks.drain();
  const reads = readsOf(sandbox);
  reads();
  return {
    codes,
    /** Returns codes of the bookings that were read since the last call. */
    read: () =>
      reads()
        .filter((path) => path.startsWith("/v2/bookings/"))
        .map((path) => path.slice("/v2/bookings/".length)),
  };
}

/** Makes a machine with a memory store that has handled `count` bookings. */
async function knownScene(count: number, ...options: Parameters<typeof scene>) {
  const it = await scene(...options);
  return { ...it, ...(await known(it.sandbox, it, count)) };
}

/** Holds reads of bookings until they are released. */
function holdReads(client: StayhookClient) {
  const { promise: free, resolve: letGo } = Promise.withResolvers<void>();
  let held = 0;
  const get = client.bookings.get.bind(client.bookings);
  client.bookings.get = ((...args: Parameters<typeof get>) => {
    held += 1;
    return free.then(() => get(...args));
  }) as typeof get;
  return { letGo, held: () => held };
}

describe.each(Object.entries(stores))("%s", (_name, place) => {
  test("a pass that was cut off goes on from its checkpoint on another machine", async () => {
    const sandbox = await startSandbox();
    const open = place();
    const stop = new AbortController();
    let checked = 0;
    const first = machineOf(sandbox, open(), {
      reconciler: {
        concurrency: 1,
        observe: ({ kind }) => {
          if (kind === "checked" && ++checked === 5) stop.abort();
        },
      },
    });
    const { codes, read } = await known(sandbox, first, 12);
    const report = await first.reconciler.run({ signal: stop.signal });
    expect(report).toMatchObject({ checked: 5, failed: 0, incomplete: "aborted" });
    expect(read()).toEqual(codes.slice(0, 5));
    const second = machineOf(sandbox, open());
    const whole = { changed: 0, failed: 0, duration: expect.any(Number) };
    expect(await second.reconciler.run()).toEqual({ checked: 7, ...whole });
    expect(read().toSorted()).toEqual(codes.slice(5));
    expect(await second.reconciler.run()).toMatchObject({ checked: 12 });
  });

  test("one pass runs at a time over all machines, and run() joins its own", async () => {
    const sandbox = await startSandbox();
    const open = place();
    const [first, second] = [machineOf(sandbox, open()), machineOf(sandbox, open())] as const;
    const { read } = await known(sandbox, first, 4);
    const { letGo, held } = holdReads(first.client);
    const running = first.reconciler.run();
    await eventually(() => expect(held()).toBe(4));
    expect(await second.reconciler.run()).toEqual({
      checked: 0,
      changed: 0,
      failed: 0,
      duration: expect.any(Number),
      incomplete: "locked",
    });
    const beside = first.reconciler.run();
    letGo();
    expect(await beside).toBe(await running);
    expect(read()).toHaveLength(4);
    expect(await second.reconciler.run()).toMatchObject({ checked: 4 });
  });

  test("start makes one pass for each `every`, over all machines", async () => {
    const sandbox = await startSandbox();
    const { bookingCode } = await sandbox.bookings.create({ status: "Request" });
    const open = place();
    const machines = [1, 2, 3].map(() => machineOf(sandbox, open(), { reconciler: { every: "1h" } }));
    const [first] = machines;
    await first!.notify({ bookingCode });
    for (const { reconciler } of machines) reconciler.start();
    const passes = () => machines.flatMap((machine) => machine.observations("pass"));
    await eventually(() => expect(passes().filter(({ incomplete }) => !incomplete)).toHaveLength(1));
    await Promise.all(machines.map(({ reconciler }) => reconciler.close()));
    const late = machineOf(sandbox, open(), { reconciler: { every: "1h" } });
    const reads = readsOf(sandbox);
    reads();
    late.reconciler.start();
    await sleep(300);
    expect(reads()).toEqual([]);
    // `run` makes a pass even if none is due.
    expect(await late.reconciler.run()).toMatchObject({ checked: 1 });
  });
});

test.each(["background", "inline"] as const)(
  "start goes on making passes, runs the callbacks, and stops at close (%s)",
  async (processing) => {
    const { sandbox, reconciler, told, observations, observed } = await scene({
      handler: { processing },
      reconciler: { every: 30 },
    });
    const { listingId } = await sandbox.listings.create({ status: "Published" });
    reconciler.start();
    reconciler.start();
    await eventually(() => expect(observations("pass").length).toBeGreaterThan(1));
    await sandbox.listings.hide(listingId);
    await eventually(() => expect(told).toMatchObject([{ status: "Hidden", source: "reconcile" }]));
    await reconciler[Symbol.asyncDispose]();
    const { length } = observed;
    await sleep(150);
    expect(observed).toHaveLength(length);
    await expect(reconciler.run()).rejects.toThrow(/closed/);
    await expect(reconciler.watch("B1")).rejects.toThrow(/closed/);
    reconciler.start();
  },
);

test("a machine makes no pass if another one has just made it", async () => {
  const { sandbox, store, reconciler } = await scene();
  await reconciler.run();
  const reads = readsOf(sandbox);
  reads();
  const lagging = machineOf(sandbox, store);
  // The first read returns the state from before the other machine's pass.
  vi.spyOn(store, "getMeta").mockResolvedValueOnce(undefined);
  lagging.reconciler.start();
  await eventually(() => expect(lagging.observations("pass")).toMatchObject([{ incomplete: "locked" }]));
  expect(reads()).toEqual([]);
});

test("a pass ends if another process has taken its lock", async () => {
  const { store, ...machine } = await knownScene(3, {
    handler: { leaseDuration: 500 },
    reconciler: { concurrency: 1 },
  });
  let reading = 0;
  machine.client.bookings.get = ((_code: string, options: { signal: AbortSignal }) => {
    reading += 1;
    return new Promise((_, reject) => {
      options.signal.addEventListener("abort", () => reject(options.signal.reason));
    });
  }) as never;
  const running = machine.reconciler.run();
  await eventually(() => expect(reading).toBeGreaterThan(0));
  // This process stood still, so another process has taken its expired lease.
  await eventually(async () => {
    const reading = await readState(store);
    const taken = { ...reading.state, owner: "another", lease: 60_000 };
    expect(await writeState(store, reading, taken)).toBe(true);
  });
  expect(await running).toMatchObject({ checked: 0, incomplete: "locked" });
  expect((await stateIn(store))?.owner).toBe("another");
});

test("a caller that joins a pass does not stop it with its own signal", async () => {
  const { sandbox, ...machine } = await knownScene(2);
  const { letGo, held } = holdReads(machine.client);
  const running = machine.reconciler.run();
  await eventually(() => expect(held()).toBe(2));
  const stop = new AbortController();
  const beside = machine.reconciler.run({ signal: stop.signal });
  stop.abort();
  letGo();
  expect(await running).toMatchObject({ checked: 2 });
  expect(await beside).not.toHaveProperty("incomplete");
});

test("start does not start a handler with autoStart: false", async () => {
  const { reconciler, webhooks, observations } = await scene({ handler: { autoStart: false } });
  reconciler.start();
  await eventually(() => expect(observations("pass")).toHaveLength(1));
  expect(await webhooks.health()).toMatchObject({ state: "idle" });
});

test("run counts as the pass of its interval", async () => {
  const every = 3_600_000;
  const { store, reconciler } = await scene({ reconciler: { every } });
  const start = Date.now();
  const setClock = stopClock(start);
  const due = async () => Date.now() + dueIn(await readState(store), every);
  await reconciler.run();
  expect(await due()).toBe(start + every);
  setClock(start + 1_800_000);
  expect(await due()).toBe(start + every);
  await reconciler.run();
  expect(await due()).toBe(start + 1_800_000 + every);
});

test("start observes a failure of the store and tries again", async () => {
  const { store, reconciler, observations, logged } = await scene({ reconciler: { every: 50 } });
  const error = new Error("disk full");
  const snapshots = vi.spyOn(store, "snapshots").mockImplementation(() => {
    throw error;
  });
  await expect(reconciler.run()).rejects.toThrow("disk full");
  reconciler.start();
  await eventually(() => expect(observations("error")).toMatchObject([{ error }]));
  expect(logged.join()).toMatch(/the reconciler's pass failed because of the store.*disk full/);
  snapshots.mockRestore();
  await eventually(() => expect(observations("pass").length).toBeGreaterThan(0));
});

test("a pass that begins `every` after an incomplete one goes on where it stopped", async () => {
  const { sandbox, codes, ...machine } = await knownScene(3, { reconciler: { concurrency: 1, every: "1h" } });
  sandbox.faults.set([{ route: `/v2/bookings/${codes[1]}`, status: 401 }]);
  expect(await machine.reconciler.run()).toMatchObject({ checked: 1, incomplete: "unreachable" });
  sandbox.faults.clear();
  stopClock(Date.now() + 2 * 3_600_000);
  expect(await machine.reconciler.run()).toMatchObject({ checked: 2 });
  expect(await machine.reconciler.run()).toMatchObject({ checked: 3 });
});

describe("while the platform is out of reach", () => {
  test("all reads of a pass wait for Retry-After", async () => {
    const { sandbox, codes, read, ...machine } = await knownScene(8);
    sandbox.faults.set([{ route: everyBooking, status: 429, retryAfter: 1, times: 1 }]);
    const report = await machine.reconciler.run();
    expect(report).toMatchObject({ checked: 8, failed: 0 });
    expect(report.duration).toBeGreaterThan(990);
    // The read that was limited comes again.
    expect(read()).toHaveLength(codes.length + 1);
    // When the 429 arrived, three other reads were already pending. All later reads wait for Retry-After.
    const times = sandbox.requests
      .filter(({ path }) => path.startsWith("/v2/bookings/"))
      .map(({ receivedAt }) => +receivedAt);
    const last = times.slice(-10);
    expect(last.filter((at) => at > last[0]! + 500).length).toBeGreaterThanOrEqual(5);
  });

  test("a Retry-After of more than a minute ends the pass, and the next one goes on", async () => {
    const { sandbox, codes, read, ...machine } = await knownScene(6, { reconciler: { concurrency: 1 } });
    sandbox.faults.set([{ route: `/v2/bookings/${codes[3]}`, status: 503, retryAfter: 3600 }]);
    expect(await machine.reconciler.run()).toMatchObject({
      checked: 3,
      failed: 1,
      incomplete: "unreachable",
    });
    expect(read()).toEqual(codes.slice(0, 4));
    sandbox.faults.clear();
    expect(await machine.reconciler.run()).toMatchObject({ checked: 3, failed: 0 });
    expect(read()).toEqual(codes.slice(3));
  });

  test.each([
    ["a token that is refused", { status: 401 }, 1],
    ["a platform that answers 503", { status: 503 }, 5],
    ["a connection that breaks", { cutOff: true }, 5],
    ["a rate limit that does not end", { status: 429 }, 5],
  ])("%s ends the pass early", async (_what, fault, most) => {
    const { sandbox, read, ...machine } = await knownScene(60, { reconciler: { rate: 1000 } });
    sandbox.faults.set([{ route: everyBooking, ...fault }]);
    const report = await machine.reconciler.run();
    expect(report).toMatchObject({ checked: 0, changed: 0, incomplete: "unreachable" });
    expect(report.failed).toBeGreaterThan(0);
    expect(read().length).toBeLessThanOrEqual(4 * (most + 1));
    expect(machine.logged.join()).toMatch(/out of reach/);
    sandbox.faults.clear();
    expect(await machine.reconciler.run()).toMatchObject({ checked: 60, failed: 0 });
  });

  test("a pass without bookings also finds that the platform is out of reach", async () => {
    const { sandbox, reconciler } = await scene({}, { faults: [{ status: 503 }] });
    expect(await reconciler.run()).toMatchObject({ checked: 0, failed: 1, incomplete: "unreachable" });
    sandbox.faults.set([{ status: 403 }]);
    const refused = await reconciler.run();
    expect(refused).toMatchObject({ checked: 0, failed: 1 });
    expect(refused).not.toHaveProperty("incomplete");
  });

  test("a list that cannot be read counts as failed, and the bookings are read", async () => {
    const { sandbox, ...machine } = await knownScene(2);
    await sandbox.listings.create({ status: "Published" });
    sandbox.faults.set([{ route: "GET /v2/listings", status: 403 }]);
    expect(await machine.reconciler.run()).toMatchObject({ checked: 2, failed: 1 });
    expect(machine.observations("failed")).toMatchObject([{ ref: "listings", error: { status: 403 } }]);
    sandbox.faults.clear();
    // No pass has read the list before, so its listing counts as learned and not as changed.
    expect(await machine.reconciler.run()).toMatchObject({ checked: 3, changed: 0 });
    expect(machine.observations("learned")).toHaveLength(1);
  });

  test("a pass that stops during the try of a shut gate makes room for another try", async () => {
    const gates = new Gates(() => {});
    const lane = { account: undefined, kind: "bookings" } as const;
    const failure = { outage: { everything: true }, error: new Error("down"), isFirst: true };
    gates.failed(gates.begin("booking:A", lane), failure);
    const isFree = () => gates.lets(lane, performance.now());
    await eventually(() => expect(isFree()).toBe(true));
    const stop = new StopReason();
    const reader = new Reader({
      ...{ stop, gates, backoff: () => 1, asked: false, rate: 100, store: memory() },
      internals: { handlesEvents: () => false },
    });
    const reading = reader.read(
      "booking:B",
      ({ signal }) =>
        new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason))),
    );
    await eventually(() => expect(isFree()).toBe(false));
    stop.stop("aborted");
    await reading;
    await eventually(() => expect(isFree()).toBe(true));
  });

  test("unreadable bookings are no outage while others are read in between", async () => {
    const { sandbox, codes, ...machine } = await knownScene(9, { reconciler: { concurrency: 1 } });
    const unreadable = codes.filter((_, n) => n % 2 === 1);
    sandbox.faults.set(unreadable.map((code) => ({ route: `/v2/bookings/${code}`, status: 500 })));
    const report = await machine.reconciler.run();
    expect(report).toMatchObject({ checked: 5, failed: 4 });
    expect(report).not.toHaveProperty("incomplete");
  });

  test("one gone or unreadable booking does not stop the pass", async () => {
    const { sandbox, codes, read, ...machine } = await knownScene(9);
    sandbox.faults.set([
      { route: `/v2/bookings/${codes[1]}`, status: 404 },
      { route: `/v2/bookings/${codes[4]}`, status: 500 },
      { route: `/v2/bookings/${codes[6]}`, status: 500, times: 2 },
    ]);
    await sandbox.bookings.approve(codes[8]!);
    expect(await machine.reconciler.run()).toMatchObject({ checked: 7, changed: 2, failed: 1 });
    expect(read().filter((code) => code === codes[4])).toHaveLength(3);
    const failed = machine.observations("failed").map(({ ref }) => ref);
    expect(failed).toEqual([`booking:${codes[4]}`]);
    expect(machine.observations("gone")).toMatchObject([{ ref: `booking:${codes[1]}` }]);
    await eventually(() =>
      expect(machine.told).toContainEqual(expect.objectContaining({ record: codes[8], status: "Confirmed" })),
    );
    // The pass has read all bookings, so the next pass starts over.
    expect(await machine.reconciler.run()).toMatchObject({ checked: 7, failed: 1 });
  });
});

test("a pass and the queue share the gates", async () => {
  const { sandbox, ...machine } = await knownScene(8, { reconciler: { concurrency: 8 } });
  sandbox.faults.set([{ route: everyBooking, status: 503, times: 8 }]);
  const running = machine.reconciler.run();
  await eventually(async () => expect(await machine.webhooks.health()).toMatchObject({ state: "paused" }));
  expect(await running).toMatchObject({ checked: 8, failed: 0 });
  const reads = sandbox.requests.filter(({ status }) => status === 503 || status === 200);
  const tried = reads.findIndex(({ status }, n) => status === 200 && reads[n - 1]?.status === 503);
  // All reads of the pass wait for the queue's try, 0.9 s after the pause began.
  expect(+reads[tried]!.receivedAt - +reads[tried - 1]!.receivedAt).toBeGreaterThan(500);
  expect(await machine.webhooks.health()).toMatchObject({ pausedSince: undefined });
});

test("close does not wait for every booking of a watch, and the watch rejects", async () => {
  const { sandbox, reconciler } = await scene({}, { faults: [{ route: everyBooking, delay: 100 }] });
  const watching = reconciler.watch(Array.from({ length: 400 }, (_, n) => `B${n}`));
  const rejected = expect(watching).rejects.toThrow(/closed before it had added all bookings/);
  await sleep(150);
  await reconciler.close();
  await rejected;
  expect(sandbox.requests.length).toBeLessThan(200);
});

test("run({ signal }) throws an error of the store, as run() does", async () => {
  const { sandbox, store, reconciler } = await scene({ handler: { leaseDuration: 30 } });
  vi.spyOn(store, "claim").mockRejectedValue(new Error("disk full"));
  await sandbox.listings.create({ status: "Published" });
  await expect(reconciler.run()).rejects.toThrow("disk full");
  await expect(reconciler.run({ signal: new AbortController().signal })).rejects.toThrow("disk full");
});

test("`concurrency` limits the reads at once", async () => {
  const { sandbox, ...machine } = await knownScene(12, { reconciler: { concurrency: 3 } });
  let [now, most] = [0, 0];
  const get = machine.client.bookings.get.bind(machine.client.bookings);
  machine.client.bookings.get = ((...args: Parameters<typeof get>) => {
    most = Math.max(most, ++now);
    return get(...args).finally(() => now--);
  }) as typeof get;
  expect(await machine.reconciler.run()).toMatchObject({ checked: 12 });
  expect(most).toBe(3);
});

test("an aborted signal prevents all reads, and an invalid signal throws", async () => {
  const { sandbox, reconciler } = await scene();
  expect(await reconciler.run({ signal: AbortSignal.abort() })).toMatchObject({
    checked: 0,
    incomplete: "aborted",
  });
  expect(sandbox.requests).toEqual([]);
  await expect(reconciler.run({ signal: "stop" as never })).rejects.toThrow(/signal: must be an AbortSignal/);
});

test("a pass renews its lock and writes its checkpoint while it runs", async () => {
  const { sandbox, store, ...first } = await knownScene(
    20,
    { handler: { leaseDuration: 700 }, reconciler: { concurrency: 1 } },
    { faults: [{ route: everyBooking, delay: 110 }] },
  );
  const running = first.reconciler.run();
  const other = machineOf(sandbox, store);
  await eventually(() => expect(first.observations("checked").length).toBeGreaterThan(15));
  expect(await other.reconciler.run()).toMatchObject({ incomplete: "locked" });
  expect((await stateIn(store))?.after).toMatch(/^booking:B/);
  expect(await running).toMatchObject({ checked: 20 });
});

test.each([
  ["400 days", 400 * 86_400_000],
  ["20 hours", 20 * 3_600_000],
])(
  "an unchanged record is kept despite its age, with snapshotRetention %s",
  async (_kept, snapshotRetention) => {
    const { sandbox, store, reconciler, told, logged } = await scene({
      handler: { snapshotRetention },
      reconciler: { every: "1h" },
    });
    const { listingId } = await sandbox.listings.create({ status: "Published" });
    await reconciler.run();
    const start = Date.now();
    const setClock = stopClock();
    for (const age of [0.3, 0.6, 1.05, 1.1, 1.5, 2.05]) {
      setClock(start + age * snapshotRetention);
      await reconciler.run();
      await store.pruneSnapshots({ age: snapshotRetention, limit: 100 });
    }
    expect(await store.snapshotOf(`listing:${listingId}`)).toMatchObject({
      snapshot: { status: "Published" },
      sequence: 1,
    });
    expect(told).toEqual([]);
    expect(logged).toEqual([]);
  },
);

test("an `every` that is too long for snapshotRetention logs a warning", () => {
  const handler = { snapshotRetention: 3 * 86_400_000 };
  const platform = { url: "http://127.0.0.1:1", accessToken: "secret-token" };
  for (const [every, warns] of [
    ["36h", false],
    ["37h", true],
  ] as const) {
    const { logged } = machineOf(platform, memory(), { handler, reconciler: { every } });
    expect(logged.some((line) => /snapshotRetention.*every/.test(line))).toBe(warns);
  }
});
