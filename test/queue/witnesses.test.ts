import { describe, expect, onTestFinished, test, vi } from "vitest";
import { moveClock } from "../../src/clock.ts";
import type { ReadWitness, WorkResult } from "../../src/queue/work.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import {
  advance,
  done,
  eventOf,
  first,
  gate,
  MINUTE,
  never,
  outOfReach,
  queueOf,
  refused,
  SECOND,
  useFakeTime,
} from "./support.ts";

useFakeTime();

const down = { error: new Error("down"), outage: { everything: false } };

/** Makes a queue whose records with a name in `bad` get no answer. It keeps which witnesses were read, and when. */
async function scene({
  bad = /^bad/,
  witness = (ref) => (bad.test(ref.split(":")[1] ?? "") ? down : undefined),
  work = () => done,
  alter = {},
  concurrency = 10,
}: {
  bad?: RegExp;
  witness?: (ref: string, signal: AbortSignal) => Awaited<ReturnType<ReadWitness>> | Promise<undefined>;
  work?: (name: string) => WorkResult<never> | Promise<WorkResult<never>>;
  concurrency?: number;
  alter?: NonNullable<Parameters<typeof queueOf>[0]>["alter"];
} = {}) {
  const store = memoryStore();
  const asked: string[] = [];
  const readWitness = vi.fn<ReadWitness>(async (ref, signal) => {
    asked.push(ref);
    return witness(ref, signal);
  });
  const it = queueOf({
    store,
    alter,
    concurrency,
    readWitness,
    work: ({ ref }) => (bad.test(ref!.split(":")[1] ?? "") ? outOfReach() : work(ref!.split(":")[1] ?? "")),
  });
  let count = 0;
  const add = (...refs: string[]) =>
    Promise.all(
      refs.map((ref) => {
        count += 1;
        return store.add(eventOf(`${count}`, ref.includes(":") ? ref : `booking:${ref}`));
      }),
    );
  it.queue.start();
  await advance(0);
  return { ...it, add, asked };
}

describe("before the breaker opens", () => {
  test("the record that was last read with success decides that the platform is up", async () => {
    const { add, asked, queue, kinds, observed } = await scene();
    await add("good 1", "good 2");
    await advance(0);
    await add("bad 1", "bad 2", "bad 3");
    await advance(SECOND);
    expect(asked).toEqual(["booking:good 2"]);
    expect([queue.state, kinds().filter((kind) => kind === "paused")]).toEqual(["running", []]);
    // A record that fails beside others that answer is soon read again.
    const failed = observed.filter((event) => event.kind === "failed");
    expect(failed).toHaveLength(3);
    expect(Math.max(...failed.map(({ retryIn }) => retryIn))).toBeLessThanOrEqual(2 * SECOND);
  });

  test("the answer holds for 5 s", async () => {
    const { add, asked } = await scene();
    await add("good");
    await advance(0);
    for (let n = 0; n < 14; n += 1) {
      await add(`bad ${n}`);
      await advance(SECOND);
    }
    expect(asked.length).toBeGreaterThanOrEqual(2);
    expect(asked.length).toBeLessThanOrEqual(3);
  });

  test("without an answer of three witnesses it is an outage, which says whose read decided it", async () => {
    const { add, asked, queue } = await scene({ witness: () => down });
    await add("good 1", "good 2", "good 3", "good 4");
    await advance(0);
    await add("bad 1", "bad 2");
    await advance(3 * SECOND);
    expect(asked).toEqual(["booking:good 4", "booking:good 3", "booking:good 2"]);
    expect(queue.pause).toMatchObject({ scope: "bookings", reason: "Error: down", ref: "booking:good 2" });
    // Another witness is asked first the next time, because this one may be at fault.
    await advance(6 * SECOND);
    expect(asked[3]).toBe("booking:good 1");
  });

  test("an app that has read nothing asks a waiting record with a snapshot, then the newest", async () => {
    const { add, asked, queue, store } = await scene({ witness: () => down });
    await store.learn("booking:known", { status: "Confirmed", fields: {} });
    vi.spyOn(store, "list").mockImplementation(async ({ state }) =>
      state === "pending"
        ? (["booking:newest", "booking:older", "booking:known", "listing:1"].map((ref) => ({
            ...eventOf(ref, ref),
            state: "pending",
          })) as never)
        : [],
    );
    await add("bad 1", "bad 2");
    await advance(3 * SECOND);
    expect(asked).toEqual(["booking:known", "booking:newest", "booking:older"]);
    expect(queue.state).toBe("paused");
  });

  test("a record in question is no witness, nor one that was refused", async () => {
    const { add, asked, queue } = await scene({
      bad: /^(bad|soon)/,
      work: (name) => (name === "gone" ? refused : done),
    });
    await add("good", "gone");
    await advance(0);
    await add("bad 1", "bad 2");
    await advance(SECOND);
    expect(asked).toEqual(["booking:good"]);
    expect(queue.state).toBe("running");
  });

  test("a witness that is answered 429 pauses everything", async () => {
    const limited = { error: new Error("429"), outage: { everything: true, retryAfter: 20 * SECOND } };
    const { add, queue, asked } = await scene({ witness: () => limited });
    await add("good 1", "good 2");
    await advance(0);
    await add("bad 1", "bad 2");
    await advance(SECOND);
    expect(asked).toHaveLength(1);
    expect(queue.pause).toMatchObject({ scope: "everything", reason: "Error: 429" });
  });

  test("a witness that hangs has 10 s, and close does not wait for it", async () => {
    const { add, queue, asked } = await scene({ witness: () => new Promise(() => {}) });
    await add("good 1", "good 2");
    await advance(0);
    await add("bad 1", "bad 2");
    await advance(9 * SECOND);
    expect(asked).toHaveLength(1);
    await advance(3 * SECOND);
    expect(asked).toHaveLength(2);
    const closed = vi.fn();
    void queue.close(SECOND).then(closed);
    await advance(2 * SECOND);
    expect(closed).toHaveBeenCalled();
  });
});

test("a store that does not list waiting records has no witnesses", async () => {
  let lists = 0;
  const { add, ran } = await scene({
    alter: {
      list: first(() => {
        lists += 1;
        return lists <= 2 && never();
      }),
    },
  });
  await add("bad 1", "bad 2");
  await advance(SECOND);
  await add("good");
  await advance(MINUTE);
  expect(ran).toContain("3");
});

describe("in a pause of bookings", () => {
  test("listings go on, and an answer of a listing does not end it", async () => {
    const { add, queue, store, ran } = await scene({ witness: () => down });
    await add("bad 1", "bad 2", "bad 3");
    await advance(3 * SECOND);
    expect(queue.pause).toMatchObject({ scope: "bookings" });
    const before = ran.length;
    await add("listing:1", "listing:2", "bad 4");
    await store.add(eventOf("message", null));
    await advance(2 * SECOND);
    expect(ran.slice(before)).toHaveLength(3);
    expect(queue.pause).toMatchObject({ scope: "bookings" });
    const pushed = queue.push();
    await advance(3 * SECOND);
    expect(await pushed).toEqual({ done: 0, failed: 0 });
  });

  test("a listing event is claimed when the lease of a process that has died ends", async () => {
    const { add, queue, store, ran } = await scene({ witness: () => down });
    await add("bad 1", "bad 2", "bad 3");
    await advance(3 * SECOND);
    expect(queue.pause).toMatchObject({ scope: "bookings" });
    await store.add(eventOf("orphan", "listing:1"));
    expect(await store.claim({ limit: 1, leaseDuration: 5 * SECOND, eventId: "orphan" })).toHaveLength(1);
    await advance(4 * SECOND);
    expect(ran).not.toContain("orphan");
    await advance(3 * SECOND);
    expect(queue.pause).toMatchObject({ scope: "bookings" });
    expect(ran).toContain("orphan");
  });

  test("listings go on while the clock of a sandbox is ahead", async () => {
    const sandbox = {};
    moveClock(sandbox, 5 * MINUTE);
    onTestFinished(() => moveClock(sandbox, undefined));
    const { add, queue, ran } = await scene({ witness: () => down });
    await add("bad 1", "bad 2", "bad 3");
    await advance(3 * SECOND);
    expect(queue.pause).toMatchObject({ scope: "bookings" });
    await add("listing:1");
    await advance(3 * SECOND);
    expect(ran).toContain("4");
  });

  test("a listing does not wait behind another one whose attempt is long", async () => {
    const long = gate();
    const { add, ran, queue } = await scene({
      concurrency: 2,
      witness: () => down,
      work: (name) => (name === "long" ? long.opened.then(() => done) : done),
    });
    await add("bad 1", "bad 2");
    await advance(3 * SECOND);
    expect(queue.pause).toMatchObject({ scope: "bookings" });
    await add("listing:long");
    await advance(3 * SECOND);
    await add("listing:other", "listing:long");
    await advance(3 * SECOND);
    expect(ran.slice(-2)).toEqual(["3", "4"]);
    long.open();
    await advance(3 * SECOND);
    expect(ran.at(-1)).toBe("5");
  });

  test("the witnesses end it, and a drain asks them at once", async () => {
    let isDown = true;
    const { add, queue, asked, store } = await scene({
      bad: /^(?!)/,
      work: () => (isDown ? outOfReach() : done),
      witness: () => (isDown ? down : undefined),
    });
    await add("a", "b", "c");
    await advance(4 * SECOND);
    expect(queue.state).toBe("paused");
    const before = asked.length;
    isDown = false;
    const drained = queue.drain({});
    await advance(SECOND);
    expect(asked.length).toBe(before + 1);
    expect(queue.state).toBe("running");
    await advance(30 * SECOND);
    await drained;
    expect(await store.counts()).toMatchObject({ done: 3 });
  });
});
