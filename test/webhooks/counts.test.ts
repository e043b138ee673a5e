// What counts, what is told, and what happens then. Each case is one that an adversary found in 1.2.

import { memoryStore, type Observation, type WebhookEvent } from "stayhook";
import { describe, expect, test } from "vitest";
import { sized } from "../support/soak.ts";
import {
  type Answer,
  advance,
  clientOf,
  HOUR,
  handlerOf,
  MINUTE,
  notificationOf,
  useFakeTime,
} from "./support.ts";

useFakeTime();

const SECOND = 1000;
const well: Answer = { status: 200, body: { status: "Confirmed", listingId: 7 } };

/** What the platform answers to the n-th read of a record, and after how many ms. */
type Platform = (id: string, n: number) => number | { status: number; after?: number; retryAfter?: number };

/** Makes an app whose platform answers as a function says. Its log of an event has what was told, and when, in s. */
function appOf(platform: Platform, options: Parameters<typeof handlerOf>[0] = {}) {
  const start = performance.now();
  const at = () => Math.round((performance.now() - start) / 100) / 10;
  const reads: { readonly id: string; readonly at: number }[] = [];
  const observed: (Observation & { readonly at: number })[] = [];
  const told: WebhookEvent[] = [];
  const fetch = async (url: string) => {
    const id = new URL(url).pathname.split("/").at(-1)!;
    reads.push({ id, at: at() });
    const given = platform(id, reads.filter((read) => read.id === id).length);
    const { status, after = 20, retryAfter } = typeof given === "number" ? { status: given } : given;
    await new Promise((resolve) => setTimeout(resolve, after));
    const headers = retryAfter === undefined ? {} : { "retry-after": String(retryAfter) };
    const key = /^\d+$/.test(id) ? { listingId: Number(id) } : { bookingCode: id };
    return Response.json(status === 200 ? { ...(well as { body: object }).body, ...key } : {}, {
      status,
      headers,
    });
  };
  const app = handlerOf({
    on: { fallback: (event: WebhookEvent) => void told.push(event) },
    recheckAfter: false,
    clientOf: () => clientOf({ fetch: fetch as never }),
    observe: (observation) => observed.push({ ...observation, at: at() }),
    ...options,
  });
  const notify = async (bookingCode: string): Promise<string> => {
    const notification = notificationOf({ bookingCode });
    await app.deliver(notification);
    return notification.eventId;
  };
  const of = <K extends Observation["kind"]>(kind: K) =>
    observed.filter((each): each is Extract<Observation, { kind: K }> & { at: number } => each.kind === kind);
  const readsOf = (id: string) => reads.filter((read) => read.id === id).map((read) => read.at);
  return { ...app, at, reads, readsOf, observed, of, told, notify };
}

describe("what is told of the next try is what happens", () => {
  test("a wait that the platform asks for, although the lane was answered meanwhile", async () => {
    const app = appOf((id, n) =>
      id === "B1" && n === 1 ? { status: 429, after: 300, retryAfter: 60 } : 200,
    );
    const id = await app.notify("B1");
    await app.notify("B2");
    await advance(SECOND);
    expect(app.of("failed")[0]).toMatchObject({ eventId: id, retryIn: 60 * SECOND });
    expect(app.of("paused")[0]).toMatchObject({ wait: 60 * SECOND });
    expect(Number((await app.store.get(id))!.dueAt) - Date.now()).toBeCloseTo(59.3 * SECOND, -2);
    await advance(70 * SECOND);
    expect(app.readsOf("B1")).toEqual([0, 60.3]);
  });

  test("the first counted failure after three failed callbacks waits for 2 s", async () => {
    let calls = 0;
    const app = appOf((id, n) => (id === "B1" && n === 4 ? { status: 500, after: 300 } : 200), {
      on: {
        fallback: ({ ref }: WebhookEvent) => {
          if (ref === "booking:B1" && calls++ < 3) throw new Error("calendar down");
        },
      },
    });
    const id = await app.notify("B1");
    while (app.readsOf("B1").length < 4) await advance(SECOND / 20);
    await app.notify("B2");
    await advance(SECOND);
    expect(app.of("failed").at(-1)).toMatchObject({ reason: "unavailable", attempt: 4, retryIn: 2 * SECOND });
    await advance(2 * SECOND);
    expect(await app.store.get(id)).toMatchObject({ state: "done", attempts: 4 });
  });

  test("a wait that is prolonged is told again", async () => {
    const app = appOf((id, n) => {
      if (n > 1) return 200;
      return id === "B1" ? { status: 429, retryAfter: 2 } : { status: 429, retryAfter: 300, after: 520 };
    });
    await app.notify("B1");
    await app.notify("B2");
    await advance(SECOND);
    expect(app.of("paused")).toMatchObject([
      { at: 0, wait: 2 * SECOND },
      { at: 0.5, wait: 300 * SECOND },
    ]);
    const { nextTryAt } = await app.webhooks.health();
    expect(Number(nextTryAt) - Date.now()).toBeCloseTo(299_540, -2);
    await advance(300 * SECOND);
    expect(app.readsOf("B1")).toEqual([0, 300.5]);
  });

  test("an event whose callback fails in a pause waits for the end of the pause", async () => {
    const app = appOf((id, n) => (id === "B2" && n === 1 ? { status: 429, retryAfter: 600 } : 200), {
      on: {
        fallback: async ({ ref, attempt }: WebhookEvent) => {
          if (ref !== "booking:B1" || attempt > 1) return;
          await new Promise((resolve) => setTimeout(resolve, SECOND));
          throw new Error("calendar down");
        },
      },
    });
    await app.notify("B1");
    await advance(100);
    await app.notify("B2");
    await advance(2 * SECOND);
    expect(app.of("failed").at(-1)).toMatchObject({ ref: "booking:B1", retryIn: 599_100 });
    await advance(600 * SECOND);
    expect(app.readsOf("B1")).toEqual([0, 600.1]);
  });

  test("an event behind the wait of its account, and the pause of its lane, are told with it", async () => {
    const app = appOf((id, n) => {
      if (n > 1) return 200;
      return id === "7" ? { status: 429, retryAfter: 600 } : { status: 500, after: id === "B9" ? 500 : 20 };
    });
    for (const code of ["B1", "B2", "B3", "B4"]) await app.notify(code);
    await app.notify("B9");
    await app.deliver(notificationOf({ listingId: 7 }));
    await advance(SECOND);
    const late = app.of("failed").at(-1)!;
    expect(late).toMatchObject({ ref: "booking:B9", retryIn: 599_520 });
    expect(app.of("paused").at(-1)).toMatchObject({ scope: "bookings", wait: 599_520 });
  });
});

describe("a failure that is about an account never counts", () => {
  test.each([
    [429, sized(100, 300), 3, sized(50, 120)],
    [429, sized(60, 300), 1, sized(90, 400)],
  ])(
    "%i: %i bookings wait, and the platform answers %i reads a second",
    async (status, count, most, within) => {
      let [second, used] = [-1, 0];
      const app = appOf(() => {
        const now = Math.floor(performance.now() / SECOND);
        if (now !== second) [second, used] = [now, 0];
        used += 1;
        return used <= most ? 200 : status;
      });
      for (let n = 0; n < count; n += 1) await app.notify(`B${n}`);
      await advance(within * SECOND);
      expect(await app.store.counts()).toMatchObject({ done: count, parked: 0, retrying: 0 });
    },
  );

  test.each([{ status: 401 }, { status: 503, retryAfter: 1 }, { status: 429 }])(
    "%j for one booking, while others are answered",
    async (answer) => {
      const app = appOf((id) => (id === "B1" && performance.now() < until ? answer : 200));
      const until = performance.now() + 2 * MINUTE;
      const id = await app.notify("B1");
      // Afterwards, it is tried again within 40 s.
      for (let n = 0; n < 160; n += 1) {
        await app.notify(`O${n}`);
        await advance(SECOND);
      }
      expect(await app.store.get(id)).toMatchObject({ state: "done", attempts: 1 });
    },
  );
});

describe("refusals are counted alone", () => {
  /** The first four attempts at B1 fail as said, and then one read of it is refused. */
  async function play(before: "callback" | 500, then: number, isKnown: boolean) {
    let [fails, refused] = [0, false];
    const isIn = { ref: "booking:B1" };
    const app = appOf(
      (id) => {
        if (id !== "B1") return 200;
        if (before === 500 && fails > 0) {
          fails -= 1;
          return 500;
        }
        if (!refused) return 200;
        refused = false;
        return then;
      },
      {
        on: {
          fallback: (event: WebhookEvent) => {
            app.told.push(event);
            if (before !== "callback" || event.ref !== isIn.ref || fails === 0) return;
            fails -= 1;
            throw new Error("calendar down");
          },
        },
      },
    );
    await app.notify("B2");
    if (isKnown) await app.notify("B1");
    await advance(10 * SECOND);
    fails = 4;
    const id = await app.notify("B1");
    for (let n = 0; n < 3600 && fails > 0; n += 1) {
      if (before === 500) await app.notify(`O${n}`);
      await advance(SECOND);
    }
    refused = true;
    for (let n = 0; n < 1000 && refused; n += 1) await advance(SECOND);
    await advance(10 * SECOND);
    expect([fails, refused]).toEqual([0, false]);
    return { app, event: await app.store.get(id) };
  }

  test.each([
    ["callback", 404, true],
    [500, 404, true],
    ["callback", 404, false],
    ["callback", 403, false],
    ["callback", 403, true],
  ] as const)(
    "four times %s, then one %i (known: %j): the booking is handled",
    async (before, then, isKnown) => {
      const { app, event } = await play(before, then, isKnown);
      expect(event).toMatchObject({ state: "done", type: "booking.Confirmed" });
      expect(app.told.filter(({ type }) => type === "booking.gone")).toEqual([]);
    },
  );
});

test("a platform that hides all bookings for moments, and shows them in between, makes none gone", async () => {
  let isHidden = false;
  const app = appOf(() => (isHidden ? 404 : 200), {
    observe: (observation) => {
      // Each read of the event falls into a moment in which all bookings are hidden.
      if (observation.kind === "started" && observation.eventId === id) isHidden = true;
      if (observation.kind === "failed" && observation.eventId === id) isHidden = false;
    },
  });
  let id = "";
  for (const code of ["B1", "B2"]) await app.notify(code);
  await advance(10 * SECOND);
  isHidden = true;
  const notification = notificationOf({ bookingCode: "B1" });
  id = notification.eventId;
  await app.deliver(notification);
  for (let n = 0; n < 60; n += 1) {
    await advance(5 * SECOND);
    await app.notify("B2");
  }
  // A read of the event may be going on.
  while ((await app.store.get(id))?.state === "processing") await advance(10);
  expect(app.told.filter(({ type }) => type === "booking.gone")).toEqual([]);
  expect(await app.store.get(id)).toMatchObject({ state: "retrying", attempts: 0, refusals: 0 });
});

test("a missing booking is read once more after another one was found: it may be back by then", async () => {
  let missing = true;
  const app = appOf((id) => {
    if (id === "B2" && app.readsOf("B1").length === 6) missing = false;
    return id === "B1" && app.readsOf("B1").length > 1 && missing ? 404 : 200;
  });
  for (const code of ["B1", "B2"]) await app.notify(code);
  await advance(SECOND);
  const id = await app.notify("B1");
  await advance(HOUR);
  expect(app.readsOf("B1")).toHaveLength(7);
  expect(await app.store.get(id)).toMatchObject({ state: "done", type: "booking.Confirmed" });
});

test("after an outage, one broken booking keeps no process paused", async () => {
  const store = memoryStore();
  const start = performance.now();
  const answer: Platform = (id) => (performance.now() - start < MINUTE || id === "B1" ? 500 : 200);
  const apps = [appOf(answer, { store }), appOf(answer, { store })] as const;
  for (const { webhooks } of apps) webhooks.start();
  for (let n = 1; n <= 12; n += 1) await apps[n % 2]!.notify(`B${n}`);
  let paused = 0;
  for (let minute = 0; minute < 60; minute += 1) {
    await advance(MINUTE);
    await apps[0].notify(`C${minute}`);
    for (const { webhooks } of apps) if ((await webhooks.health()).state === "paused") paused += 1;
  }
  expect(paused).toBeLessThan(10);
  expect((await apps[0].webhooks.health()).state).toBe("running");
  expect((await apps[1].webhooks.health()).state).toBe("running");
});

test("an event whose booking failed five times is handled soon after it is well", async () => {
  let [drops, fails] = [false, 0];
  const app = appOf((id) => (id === "B1" && drops ? 500 : 200), {
    observe: ({ kind, ...rest }) => {
      if (!("eventId" in rest) || rest.eventId !== id) return;
      if (kind === "started") drops = fails < 5;
      if (kind !== "failed") return;
      fails += 1;
      drops = false;
    },
  });
  const notification = notificationOf({ bookingCode: "B1" });
  const id = notification.eventId;
  drops = true;
  await app.deliver(notification);
  for (let n = 0; n < 200 && fails < 5; n += 1) {
    drops = false;
    await app.notify("B2");
    await advance(SECOND / 2);
  }
  expect(fails).toBe(5);
  await advance(31 * SECOND);
  expect(await app.store.get(id)).toMatchObject({ state: "done" });
});

test("a token that hangs pauses its own account, and says that nothing was sent", async () => {
  const observed: Observation[] = [];
  let sent = 0;
  const webhooks = handlerOf({
    accountFrom: { query: "account" },
    on: { fallback() {} },
    observe: (observation) => observed.push(observation),
    clientOf: () =>
      clientOf(
        {
          fetch: async (url) => {
            sent += 1;
            return Response.json({ bookingCode: url.split("/").at(-1), status: "Confirmed" });
          },
        },
        { accessToken: ({ account }) => (account === "z" ? "token" : new Promise<string>(() => {})) },
      ),
  }).webhooks;
  for (const account of ["x", "y", "z", "x", "y", "x", "y", "x", "y"])
    await webhooks.fetch(
      new Request(`https://subscriber.example/hooks?account=${account}`, {
        method: "POST",
        body: JSON.stringify(notificationOf({ bookingCode: "B1" })),
      }),
    );
  await advance(30 * SECOND);
  const paused = observed.filter(({ kind }) => kind === "paused");
  expect(new Set(paused.map((each) => "scope" in each && `${each.scope} ${each.account}`))).toEqual(
    new Set(["account x", "account y"]),
  );
  expect(paused[0]).toMatchObject({
    error: { message: expect.stringMatching(/was not sent: .*no token within 10000 ms/) },
  });
  expect(sent).toBe(1);
});
