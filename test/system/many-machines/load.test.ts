import { expect, test } from "vitest";
import { describeEvery } from "../../stores/every/stores.ts";
import { tcpProxy, through } from "../../support/tcp-proxy.ts";
import { randomOf, seedOf } from "../random.ts";
import { Cluster, eventOf, inTurns, type Machine, PATIENCE } from "./cluster.ts";

const seed = seedOf("many machines");
const MINUTE = 60_000;
const shared = ({ url }: { readonly url?: string | undefined }) => url !== undefined;

describeEvery(shared, (kind) => {
  test("two web and three worker processes handle each event once, one at a time of a booking, though workers are killed and frozen and their clocks are minutes apart", {
    timeout: 2 * PATIENCE,
  }, async () => {
    const random = randomOf(seed);
    const { place, open } = await kind.create();
    const cluster = new Cluster(place, { leaseDuration: 4000, work: 2 });
    const ahead = () => ({ ahead: (random.below(11) - 5) * MINUTE });
    const [webs, workers] = await Promise.all([
      Promise.all([cluster.start("web"), cluster.start("web", { ahead: -3 * MINUTE })]),
      Promise.all([
        cluster.start("worker", { ahead: 5 * MINUTE }),
        cluster.start("worker", { ahead: -5 * MINUTE }),
        cluster.start("worker", ahead()),
      ]),
    ]);
    const next = () => random.below(workers.length);

    // MariaDB commits about 100 events a second here, so send fewer events to it.
    const [count, atOnce] = kind.name === "MySQL" ? [200, 6] : [800, 20];
    const events = Array.from({ length: count }, () =>
      eventOf(random.oneIn(7) ? "HOT" : `B${random.below(100)}`),
    );
    const statuses: number[] = [];
    let sent = 0;
    const sending = inTurns(events, atOnce, async ({ eventId, bookingCode }) => {
      sent += 1;
      // Send the notification to both machines at the same instant.
      const both = webs.map((web) => cluster.post(web, eventId, bookingCode));
      statuses.push(...(await Promise.all(both)));
    });
    const sentUntil = (share: number) =>
      cluster.until(() => expect(sent).toBeGreaterThanOrEqual(share * events.length));

    await sentUntil(0.2);
    const killed = next();
    await cluster.kill(workers[killed] as Machine);
    workers[killed] = await cluster.start("worker", ahead());
    await sentUntil(0.5);
    const frozen = workers[next()] as Machine;
    cluster.freeze(frozen);
    await sentUntil(0.7);
    const other = workers.findIndex((worker) => worker !== frozen);
    await cluster.kill(workers[other] as Machine);
    workers[other] = await cluster.start("worker", ahead());
    await sending;
    // The frozen machine and the killed one held leases. Wake the frozen machine only after these leases have expired
    // and all events are done.
    const store = open();
    const finished = { scheduled: 0, pending: 0, processing: 0, retrying: 0, parked: 0, done: events.length };
    await cluster.until(async () => expect(await store.counts()).toEqual(finished));
    cluster.wake(frozen);
    expect(await cluster.health(frozen)).toBe("running");
    expect(await store.counts()).toEqual(finished);
    await store.close();

    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    const { history } = cluster;
    expect(history.overlaps()).toEqual([]);
    expect(history.repeatedForNothing()).toEqual([]);
    expect(history.count("began").size).toBe(events.length);
    expect([...history.count("done").values()].filter((times) => times > 1)).toEqual([]);
    expect(history.of("failed").length + history.of("parked").length).toBe(0);
    const busy = new Set(history.of("began").map(({ pid }) => pid));
    expect(webs.filter(({ pid }) => busy.has(pid))).toEqual([]);
    expect(await Promise.all(webs.map((web) => cluster.health(web)))).toEqual(["idle", "idle"]);
    expect(busy.size, "they share the work").toBeGreaterThan(2);
  });
});

// Run the tests concurrently, because they wait most of the time. The lease is long enough for a busy machine.
describeEvery(
  shared,
  (kind) => {
    test("a worker that was frozen for longer than its lease records nothing any more", {
      timeout: 2 * PATIENCE,
    }, async (context) => {
      const { place, open } = await kind.create();
      const cluster = new Cluster(place, { leaseDuration: 2500, work: 3500 }, context);
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
      const ofFirst = (what: string) =>
        cluster.history
          .of(what)
          .filter(({ pid }) => pid === first.pid)
          .map(({ eventId }) => eventId);
      await cluster.until(() => {
        expect(ofFirst("cut"), "its signal aborts").toEqual([long.eventId]);
        // It ends before the process learns from the store that its lease is lost, or after.
        expect([...ofFirst("late"), ...ofFirst("ended")], "or it ends").toEqual([deaf.eventId]);
      });
      // Both callbacks of the first worker have ended. It must not record their results. Wait until it begins LONG again:
      // by then, it would have recorded them.
      await cluster.kill(second);
      await cluster.until(() => expect(ofFirst("began").filter((id) => id === long.eventId)).toHaveLength(2));
      expect(ofFirst("done")).toEqual([]);
      const store = open();
      const event = await store.get(deaf.eventId);
      expect(event?.state).toBe("done");
      expect(event?.attempts).toBeGreaterThanOrEqual(2);
      await store.close();
      expect(cluster.history.overlaps()).toEqual([]);
    });

    test("an end that comes when another has the event records nothing", {
      timeout: 2 * PATIENCE,
    }, async (context) => {
      const { place, open } = await kind.create();
      const cluster = new Cluster(place, { leaseDuration: 2500, work: 1000 }, context);
      const way = await tcpProxy(place.url);
      context.onTestFinished(() => way.close());
      const [slow, web] = await Promise.all([
        cluster.start("worker", { place: { ...place, url: through(way, place.url) } }),
        cluster.start("web"),
      ]);
      const { eventId, bookingCode } = eventOf("DEAF");
      await cluster.post(web, eventId, bookingCode);
      await cluster.until((history) => expect(history.of("began", eventId)).toHaveLength(1));
      // Hold the next messages to the server: the lease renewals and the result of the event.
      way.hold();
      // On a slow machine the lease may already have expired. The worker then sends nothing.
      await cluster.until((history) => {
        expect([...history.of("ended", eventId), ...history.of("late", eventId)]).toHaveLength(1);
      });
      const other = await cluster.start("worker");
      await cluster.until((history) => expect(history.of("began", eventId)).toHaveLength(2));
      way.release();
      await cluster.until((history) =>
        expect(history.of("done", eventId)).toMatchObject([{ pid: other.pid }]),
      );
      expect(cluster.history.of("began", eventId).map(({ pid }) => pid)).toEqual([slow.pid, other.pid]);
      const store = open();
      expect(await store.get(eventId)).toMatchObject({ state: "done", attempts: 2 });
      await store.close();
    });
  },
  { isConcurrent: true },
);
