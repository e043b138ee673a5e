import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { queryValues } from "../../../src/webhooks/receiving/request.ts";
import { StoreCounts } from "../../../src/webhooks/store-counts.ts";
import { sized } from "../../support/soak.ts";
import { bookingNotification, harness, resultAfter, statusOf, useFakeTime } from "./receiver.ts";

describe("the values of a query parameter", () => {
  it("are those that URLSearchParams reads, of any query and any name", () => {
    const part = fc.oneof(
      fc.constantFrom(..."k & = ? % + # ä ; - a=b key %6b %6Bey".split(" "), " ", "\ud800"),
      fc.string({ maxLength: 3 }),
    );
    const text = fc.array(part, { maxLength: 8 }).map((parts) => parts.join(""));
    const name = fc.oneof(fc.constantFrom("key", "k", "?key", "a=b", "a&b", "k%6by", "a+b", ""), text);
    const query = fc.oneof(
      text,
      fc.tuple(name, text).map(([given, value]) => `x=1&${given}=${value}&${given}&${given}=2`),
    );
    fc.assert(
      fc.property(query, name, (search, given) => {
        expect(queryValues(search, given)).toEqual(new URLSearchParams(search).getAll(given));
      }),
      { numRuns: sized(400, 2000) },
    );
  });
});

describe("the topic in an endpoint's URL", () => {
  it.each([
    ["/hooks?topic=bookings", "bookings"],
    ["https://you.example/hooks?key=x&topic=listings#top", "listings"],
    ["/hooks?topic=messages", "messages"],
    ["/hooks?topic=Messages", "messages"],
    ["/hooks?topic=LISTINGS", "listings"],
    ["/hooks?topic=reviews", null],
    ["/hooks?topic=bookings&topic=listings", null],
    ["/hooks?Topic=bookings", null],
    ["/hooks?#topic=bookings", null],
    ["/hooks#a?topic=bookings", null],
    ["/hooks?topic=bookings#a?topic=listings", "bookings"],
    ["/hooks", null],
    [undefined as unknown as string, null],
  ])("of %s is %s", async (url, topic) => {
    const { post, added } = harness();
    await post({ url });
    expect(added[0]?.topic).toBe(topic);
  });

  it("becomes the event's topic, and verify gets it", async () => {
    const verify = vi.fn(() => true);
    const { post, added } = harness({ verify });
    await post({ url: "/hooks?topic=Bookings" });
    expect(added[0]?.topic).toBe("bookings");
    expect(verify).toHaveBeenCalledWith(expect.objectContaining({ topic: "bookings" }));
  });

  it("gives way to an adapter's topic", async () => {
    const { post, added } = harness();
    await post({ url: "/hooks?topic=messages", topic: "bookings" });
    expect(added.map(({ topic }) => topic)).toEqual(["bookings"]);
  });

  it("is told once for each unknown name, with the topics that exist, and for ten names at most", async () => {
    const { post, log } = harness();
    for (const url of ["/hooks?topic=booking", "/hooks?topic=booking", "/hooks?topic=bookings?key=s3cret"])
      await post({ url });
    for (const topic of ["Reviews", "reviews", "REVIEWS"]) await post({ url: "/hooks", topic });
    expect(log.map(({ level, message }) => `${level} ${message}`)).toEqual(
      ["booking", "bookings…", "Reviews"].map(
        (name) =>
          `warn stayhook: the topic "${name}" of an endpoint is unknown, so the handler ignores it. The topics are bookings, listings, messages. Correct the endpoint's URL`,
      ),
    );
    for (let n = 0; n < 20; n += 1) await post({ url: `/hooks?topic=other${n}` });
    expect(log).toHaveLength(10);
  });

  it("is not told for a request that verify refuses, so that strangers use up none of the ten", async () => {
    const { post, log } = harness({ verify: () => false });
    await post({ url: "/hooks?topic=booking" });
    expect(log.map(({ message }) => message)).toEqual([expect.stringContaining("verify did not accept")]);
  });

  it("is observed with a refused request", async () => {
    const { post, seen } = harness({ verify: () => false });
    await post({ url: "/hooks?topic=listings" });
    expect(seen).toEqual([{ kind: "refused", status: 401, reason: "verify", topic: "listings" }]);
  });
});

describe("doubts about a notification", () => {
  it("are logged once a minute each, and repeat nothing of the request", async () => {
    const { post, added, log } = harness();
    for (const digit of [1, 2, 3]) {
      const eventId = `${bookingNotification.eventId.slice(0, -1)}${digit}`;
      await post({ body: { ...bookingNotification, eventId, listingId: 7, timestamp: "private" } });
    }
    expect(added).toHaveLength(3);
    expect(log).toEqual([
      expect.objectContaining({ level: "warn", message: expect.stringContaining("no readable timestamp") }),
      expect.objectContaining({ level: "warn", message: expect.stringContaining("a booking and a listing") }),
    ]);
    expect(JSON.stringify(log)).not.toContain("private");
  });
});

describe("an invalid body", () => {
  const bodyOf = async (body: string | Uint8Array): Promise<string> => {
    const { post, seen } = harness({ maxBodyBytes: 100_000 });
    await post({ body });
    const [event] = seen;
    return event?.kind === "invalid" ? event.body : "not invalid";
  };

  it("is observed whole if it is short", async () => {
    expect(await bodyOf('{"eventId":"é"')).toBe('{"eventId":"é"');
    expect(await bodyOf(new Uint8Array([0x7b, 0xff]))).toBe("{\uFFFD");
  });

  it.each(["x", "é", "€", "😀"])("is cut to 2 KiB, and no character in two: %s", async (character) => {
    const long = `.${character.repeat(3_000)}`;
    for (const body of [long, new TextEncoder().encode(long)]) {
      const shown = await bodyOf(body);
      expect(long.startsWith(shown)).toBe(true);
      const { length } = new TextEncoder().encode(shown);
      expect(length).toBeLessThanOrEqual(2048);
      expect(length).toBeGreaterThan(2044);
    }
  });
});

describe("a backlog", () => {
  useFakeTime();

  const none = { scheduled: 0, pending: 0, processing: 1, retrying: 1, done: 99, parked: 99 };
  const maxBacklog = 10;
  /** Reads the counts of a store in which `waiting()` events are pending. */
  const backlogOf = (waiting: () => number | Promise<number>) => {
    const count = vi.fn(async () => ({ ...none, pending: await waiting() }));
    return { count, counts: new StoreCounts({ counts: count, oldestWaiting: async () => undefined }) };
  };

  it("above maxBacklog accepts a known event, which the platform would repeat forever", async () => {
    const { counts } = backlogOf(() => 9);
    expect(await statusOf({}, { maxBacklog, counts, isKnown: async () => false })).toBe(503);
    expect(await statusOf({}, { maxBacklog, counts, isKnown: async () => true })).toBe(200);
  });

  it("counts scheduled events from their due time on", async () => {
    for (const [due, status] of [
      [8, 200],
      [9, 503],
    ] as const) {
      const counts = new StoreCounts({
        counts: async () => ({ ...none, scheduled: 1000 }),
        scheduledDue: async () => due,
        oldestWaiting: async () => undefined,
      });
      expect(await statusOf({}, { maxBacklog, counts, isKnown: async () => false })).toBe(status);
    }
  });

  it("above maxBacklog is answered 503 with Retry-After, by a count that is at most 1 s old", async () => {
    let waiting = 9;
    const { count, counts } = backlogOf(() => waiting);
    const { post, added, seen, log } = harness({ maxBacklog, counts });
    const { result } = await post();
    expect([result.status, Number(result.headers["retry-after"])]).toEqual([503, 5]);
    waiting = 8;
    await vi.advanceTimersByTimeAsync(400);
    expect((await post()).result.status).toBe(503);
    expect(count).toHaveBeenCalledTimes(1);
    expect(added).toEqual([]);
    expect(seen[0]).toEqual({ kind: "refused", status: 503, reason: "backlog", topic: null });
    expect(log).toMatchObject([{ level: "error", message: expect.stringContaining("maxBacklog") }]);
    await vi.advanceTimersByTimeAsync(700);
    expect((await post()).result.status).toBe(200);
  });

  it("is counted once for many requests, and no request waits for a count that is renewed", async () => {
    const { count, counts } = backlogOf(() => 0);
    const add = vi.fn(async () => "added" as const);
    expect(await Promise.all([counts.addBelow(10, add), counts.addBelow(10, add)])).toEqual([
      "added",
      "added",
    ]);
    expect(count).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(1001);
    void counts.addBelow(10, add);
    expect(add).toHaveBeenCalledTimes(3);
    expect(count).toHaveBeenCalledTimes(2);
  });

  it("is counted again only after some events while it is far from its limit", async () => {
    const { count, counts } = backlogOf(() => 0);
    const add = vi.fn(async () => "added" as const);
    for (const at of [0, 60_000, 120_000, 180_000]) {
      await vi.advanceTimersByTimeAsync(at);
      expect(await counts.addBelow(3000, add)).toBe("added");
      expect(count).toHaveBeenCalledTimes(at < 180_000 ? 1 : 2);
    }
    const near = backlogOf(() => 1500);
    await near.counts.addBelow(3000, add);
    await vi.advanceTimersByTimeAsync(2000);
    await near.counts.addBelow(3000, add);
    expect(near.count).toHaveBeenCalledTimes(2);
  });

  it("counts what a burst adds before the store has counted it", async () => {
    const store: string[] = [];
    // Each call of the store takes longer than the burst.
    const slowly = () => new Promise((resolve) => setTimeout(resolve, 50));
    const counts = new StoreCounts({
      counts: async () => {
        const pending = store.length;
        await slowly();
        return { ...none, pending };
      },
      oldestWaiting: async () => undefined,
    });
    const { receive } = harness({
      counts,
      maxBacklog: 100,
      add: async ({ eventId }) => {
        await slowly();
        if (store.includes(eventId)) return "duplicate";
        store.push(eventId);
        return "added";
      },
    });
    const send = (n: number) => {
      const eventId = `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
      const body = JSON.stringify({ ...bookingNotification, eventId });
      return receive({ method: "POST", url: "/hooks", headers: {}, body });
    };
    // Two of the counted events wait already, and duplicates fill no place.
    const answers = Array.from({ length: 500 }, (_, n) => send(n < 40 ? 0 : n));
    await vi.advanceTimersByTimeAsync(1000);
    expect(store.length).toBeGreaterThan(50);
    expect(store.length).toBeLessThanOrEqual(99);
    const later = Array.from({ length: 500 }, (_, n) => send(500 + n));
    await vi.advanceTimersByTimeAsync(1000);
    expect(store.length).toBe(99);
    const statuses = (await Promise.all([...answers, ...later])).map(({ result }) => result.status);
    expect(new Set(statuses)).toEqual(new Set([200, 503]));
    // The store handles all of them, so that there is room for more than the limit within a second.
    store.length = 0;
    for (let n = 0; n < 300; n += 1) {
      const answer = send(2000 + n);
      await vi.advanceTimersByTimeAsync(101);
      expect((await answer).result.status).toBe(200);
      store.length = 0;
    }
  });

  it("is not counted without a limit", () => {
    const { count, counts } = backlogOf(() => 0);
    void counts.addBelow(Number.POSITIVE_INFINITY, async () => "added");
    expect(count).not.toHaveBeenCalled();
  });

  it("that cannot be counted, or not within 3 s, lets notifications through", async () => {
    const broken = backlogOf(() => Promise.reject(new Error("no")));
    expect(await statusOf({}, { counts: broken.counts })).toBe(200);
    const { post, seen } = harness({ counts: backlogOf(() => new Promise(() => {})).counts });
    expect((await resultAfter(3000, post())).status).toBe(200);
    expect(seen).toMatchObject([{ kind: "received" }]);
  });
});
