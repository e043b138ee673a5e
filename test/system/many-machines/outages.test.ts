import { expect, onTestFinished, test } from "vitest";
import { openPlace } from "../../stores/every/open-place.ts";
import { describeEvery } from "../../stores/every/stores.ts";
import { tcpProxy, through } from "../../support/tcp-proxy.ts";
import { randomOf, seedOf } from "../random.ts";
import { Cluster, eventOf, inTurns, type Machine, PATIENCE } from "./cluster.ts";
import { ownServer } from "./servers.ts";

const seed = seedOf("many machines, outages");

describeEvery(
  ({ url }) => url !== undefined,
  ({ name }) => {
    test("cut off for seconds, and restarted, under load: 503s, and no loss", {
      timeout: 2 * PATIENCE,
    }, async () => {
      const random = randomOf(seed);
      const server = await ownServer(name);
      const way = await tcpProxy(server.place.url);
      onTestFinished(() => way.close());
      const place = { ...server.place, url: through(way, server.place.url) };
      const cluster = new Cluster(place, { leaseDuration: 3000, work: 2 });
      const [webs] = await Promise.all([
        Promise.all([cluster.start("web"), cluster.start("web")]),
        Promise.all([cluster.start("worker"), cluster.start("worker"), cluster.start("worker")]),
      ]);

      const answered = { 200: 0, 503: 0 } as Record<number, number>;
      const accepted: string[] = [];
      let stopped = false;
      /** Sends new events to either machine until each is answered 200, as the platform does. */
      const sending = inTurns(Array.from({ length: 10 }), 10, async () => {
        while (!stopped) {
          const { eventId, bookingCode } = eventOf(`B${random.below(50)}`);
          for (let status = 0; status !== 200 && !stopped; ) {
            status = await cluster.post(random.pick(webs) as Machine, eventId, bookingCode);
            answered[status] = (answered[status] ?? 0) + 1;
            if (status === 200) accepted.push(eventId);
            // A shorter wait would only add events that are still pending at the end.
            await new Promise((resolve) => setTimeout(resolve, status === 200 ? 20 : 50));
          }
        }
      });
      const more = async (status: number, count: number) => {
        const before = answered[status] ?? 0;
        await cluster.until(() => expect(answered[status]).toBeGreaterThanOrEqual(before + count));
      };
      const handledMore = async (count: number) => {
        const before = cluster.history.of("done").length;
        await cluster.until((history) =>
          expect(history.of("done").length).toBeGreaterThanOrEqual(before + count),
        );
      };

      await more(200, 100);
      way.cut();
      await more(503, 10);
      way.restore();
      await more(200, 100);
      await handledMore(50);
      await server.kill();
      await more(503, 10);
      await server.start();
      await more(200, 100);
      await handledMore(50);
      stopped = true;
      await sending;

      const { store } = await openPlace(server.place);
      onTestFinished(() => store.close());
      await cluster.until(async () =>
        expect(await store.counts()).toMatchObject({ pending: 0, processing: 0, retrying: 0, parked: 0 }),
      );
      expect(Object.keys(answered)).toEqual(["200", "503"]);
      const { history } = cluster;
      // Compare only accepted events. An event answered 503 is recorded if the connection broke after the commit.
      const done = new Set(history.of("began").map(({ eventId }) => eventId));
      expect(accepted.filter((eventId) => !done.has(eventId))).toEqual([]);
      expect((await store.counts()).done).toBeGreaterThanOrEqual(accepted.length);
      expect(history.overlaps()).toEqual([]);
      expect([...history.count("done").values()].filter((times) => times > 1)).toEqual([]);
    });
  },
);
