import { expect, test } from "vitest";
import { describeEvery } from "../../stores/every/stores.ts";
import { isSoak } from "../../support/soak.ts";
import { randomOf, seedOf } from "../random.ts";
import { Cluster, eventOf, inTurns, type Machine } from "./cluster.ts";

const seed = seedOf("many machines");
const MINUTE = 60_000;

describeEvery(
  ({ url }) => url !== undefined,
  (kind) => {
    test("two web and three worker processes handle each event once, one at a time of a booking, though workers are killed and frozen and their clocks are minutes apart", async (context) => {
      const random = randomOf(seed);
      const { place, open } = await kind.create();
      const cluster = new Cluster({ place, leaseDuration: 4000, work: 2 }, context);
      const ahead = () => (random.below(11) - 5) * MINUTE;
      const [webs, workers] = await Promise.all([
        Promise.all([cluster.start("web"), cluster.start("web", -3 * MINUTE)]),
        Promise.all([5 * MINUTE, -5 * MINUTE, ahead()].map((each) => cluster.start("worker", each))),
      ]);
      const another = async (index: number) => {
        await cluster.kill(workers[index] as Machine);
        workers[index] = await cluster.start("worker", ahead());
      };

      // MariaDB commits about 100 events a second here, so send fewer events to it.
      const [count, atOnce] = kind.name === "MySQL" ? [200, 6] : [800, 20];
      const events = Array.from({ length: count }, () =>
        eventOf(random.oneIn(7) ? "HOT" : `B${random.below(100)}`),
      );
      const statuses: number[] = [];
      const sending = inTurns(events, atOnce, async ({ eventId, bookingCode }) => {
        // Send the notification to both machines at the same instant.
        const both = webs.map((web) => cluster.post(web, eventId, bookingCode));
        statuses.push(...(await Promise.all(both)));
      });
      const sentUntil = (share: number) =>
        cluster.until(() => expect(statuses.length).toBeGreaterThanOrEqual(share * 2 * count));

      await sentUntil(0.2);
      await another(random.below(3));
      await sentUntil(0.5);
      const frozen = workers[random.below(3)] as Machine;
      cluster.freeze(frozen);
      await sentUntil(0.7);
      await another(workers.findIndex((worker) => worker !== frozen));
      await sending;
      // The frozen machine and the killed one held leases. Wake the frozen machine only after these leases have expired
      // and all events are done.
      const store = open();
      context.onTestFinished(() => store.close());
      const finished = { scheduled: 0, pending: 0, processing: 0, retrying: 0, parked: 0, done: count };
      await cluster.until(async () => expect(await store.counts()).toEqual(finished));
      cluster.wake(frozen);
      // What it asked of the store before it froze may have run out of time meanwhile.
      await cluster.until(async () => expect(await cluster.health(frozen)).toBe("running"));
      expect(await store.counts()).toEqual(finished);

      const { history } = cluster;
      expect(
        statuses.filter((status) => status !== 200),
        history
          .of("warned")
          .map(({ booking }) => booking)
          .join("\n"),
      ).toEqual([]);
      expect([...history.overlaps(), ...history.repeatedForNothing(), ...history.doneAgain()]).toEqual([]);
      expect(new Set(history.of("began").map(({ eventId }) => eventId)).size).toBe(count);
      expect([...history.of("failed"), ...history.of("parked")]).toEqual([]);
      const busy = new Set(history.of("began").map(({ pid }) => pid));
      expect(webs.filter(({ pid }) => busy.has(pid))).toEqual([]);
      expect(await Promise.all(webs.map((web) => cluster.health(web)))).toEqual(["idle", "idle"]);
      expect(busy.size, "they share the work").toBeGreaterThan(2);
    });

    // `crashes.test.ts` freezes a worker on every store, without a second machine.
    if (kind.name !== "PostgreSQL" && !isSoak) return;
    // The lease is long enough for a busy machine.
    test("a worker that was frozen for longer than its lease records nothing any more", async (context) => {
      const { place, open } = await kind.create();
      const cluster = new Cluster({ place, leaseDuration: 2500, work: 3500 }, context);
      const [web, first] = await Promise.all([cluster.start("web"), cluster.start("worker")]);
      const [long, deaf] = [eventOf("LONG"), eventOf("DEAF")];
      for (const { eventId, bookingCode } of [long, deaf]) await cluster.post(web, eventId, bookingCode);
      await cluster.until((history) => expect(history.of("began")).toHaveLength(2));
      cluster.freeze(first);
      const second = await cluster.start("worker");
      await cluster.until((history) => {
        expect(history.of("began", long.eventId).at(-1)).toMatchObject({ pid: second.pid });
        expect(history.of("done", deaf.eventId)).toMatchObject([{ pid: second.pid }]);
      });

      cluster.wake(first);
      const ofFirst = (...kinds: string[]) =>
        kinds
          .flatMap((what) => cluster.history.of(what))
          .filter(({ pid }) => pid === first.pid)
          .map(({ eventId }) => eventId);
      await cluster.until(() => {
        expect(ofFirst("cut"), "its signal aborts").toEqual([long.eventId]);
        // It ends before the process learns from the store that its lease is lost, or after.
        expect(ofFirst("late", "ended"), "or it ends").toEqual([deaf.eventId]);
      });
      // Both callbacks of the first worker have ended. It must not record their results. Wait until it begins LONG again:
      // by then, it would have recorded them.
      await cluster.kill(second);
      await cluster.until(() => expect(ofFirst("began").filter((id) => id === long.eventId)).toHaveLength(2));
      expect(ofFirst("done")).toEqual([]);
      const store = open();
      context.onTestFinished(() => store.close());
      const event = await store.get(deaf.eventId);
      expect(event?.state).toBe("done");
      expect(event?.attempts).toBeGreaterThanOrEqual(2);
      expect(cluster.history.overlaps()).toEqual([]);
    });
  },
);
