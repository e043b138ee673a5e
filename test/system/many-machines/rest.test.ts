import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { Cluster, eventOf, inTurns, PATIENCE } from "./cluster.ts";
import { kinds, newPlace } from "./servers.ts";
import { openStore } from "./store-place.ts";

/** After this time, in ms, a PostgreSQL store wakes without a notification. See `SAFETY` in postgres-notifier.ts. */
const SAFETY = 10_000;

// MySQL has no notifications, and takes minutes to record ten thousand events of one booking.
describe.each(kinds.filter((kind) => kind !== "mysql"))("on %s", (kind) => {
  test("what one process takes in another begins at once: it is told, it does not poll", {
    timeout: PATIENCE,
  }, async () => {
    const cluster = new Cluster(await newPlace(kind), { leaseDuration: 30_000, work: 0 });
    const [web] = await Promise.all([cluster.start("web"), cluster.start("worker")]);
    const warm = eventOf("WARM");
    await cluster.post(web, warm.eventId, warm.bookingCode);
    await cluster.until((history) => expect(history.of("done", warm.eventId)).toHaveLength(1));

    const times: number[] = [];
    for (let i = 0; i < 15; i += 1) {
      const { eventId, bookingCode } = eventOf(`B${i}`);
      const from = performance.now();
      await cluster.post(web, eventId, bookingCode);
      while (cluster.history.of("done", eventId).length === 0) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        if (performance.now() - from > SAFETY) break;
      }
      times.push(performance.now() - from);
    }
    times.sort((a, b) => a - b);
    console.log(
      `${kind}: from the request to the end of the callback in another process, median ${times[7]?.toFixed(1)} ms`,
    );
    // With polling alone, at least half of the 15 times would be longer than this.
    expect(times[7]).toBeLessThan(1000);
  });

  test("ten thousand events that wait for one booking do not slow the others", {
    timeout: 2 * PATIENCE,
  }, async () => {
    const place = await newPlace(kind);
    const store = openStore(place);
    const add = (eventId: string, code: string) =>
      store.add({
        eventId,
        ref: `booking:${code}`,
        source: "webhook",
        topic: null,
        timestamp: "2026-03-01T10:00:00.000Z",
        notification: JSON.stringify({ eventId, bookingCode: code, timestamp: "2026-03-01T10:00:00Z" }),
      });
    const others = (round: string) => Array.from({ length: 300 }, (_, i) => eventOf(`${round}${i % 30}`));
    const cluster = new Cluster(place, { leaseDuration: 10_000, work: 5 });
    /** Returns the time until all events are done, in ms. */
    const timed = async (round: string) => {
      const events = others(round);
      const from = performance.now();
      await Promise.all(events.map(({ eventId, bookingCode }) => add(eventId, bookingCode)));
      await cluster.until((history) => {
        const done = history.count("done");
        expect(events.filter(({ eventId }) => !done.has(eventId))).toEqual([]);
      });
      return performance.now() - from;
    };

    await Promise.all([cluster.start("worker"), cluster.start("worker")]);
    await timed("WARM");
    const alone = await timed("A");
    await inTurns(Array.from({ length: 10 }), 1, async () => {
      await Promise.all(Array.from({ length: 1000 }, () => add(randomUUID(), "HOT")));
    });
    const beside = await timed("B");
    const { pending } = await store.counts();
    console.log(
      `${kind}: 300 others ${alone.toFixed(0)} ms alone, ${beside.toFixed(0)} ms beside ${pending}`,
    );
    expect(pending).toBeGreaterThan(5000);
    expect(beside).toBeLessThan(5 * alone + 1000);
    expect(cluster.history.overlaps()).toEqual([]);
    await store.close();
  });
});
