import { expect, test } from "vitest";
import { openPlace } from "../../stores/every/open-place.ts";
import { createProxy } from "../../stores/every/proxy.ts";
import { describeEvery } from "../../stores/every/stores.ts";
import { startOwnMysql } from "../../support/mysql-server.ts";
import { startOwnPostgres } from "../../support/postgres-server.ts";
import { startOwnRedis } from "../../support/redis-server.ts";
import { randomOf, seedOf } from "../random.ts";
import { Cluster, eventOf, inTurns, type Machine } from "./cluster.ts";

const seed = seedOf("many machines, outages");
const starts = { PostgreSQL: startOwnPostgres, MySQL: startOwnMysql, Redis: startOwnRedis };

describeEvery(
  ({ name, url }) => name in starts && url !== undefined,
  ({ name }) => {
    test("cut off for seconds, and restarted, under load: 503s, and no loss", async (context) => {
      const random = randomOf(seed);
      const server = await starts[name as keyof typeof starts]();
      if (!server) throw new Error(`${name} is not installed`);
      context.onTestFinished(() => server.close());
      const way = await createProxy(server.url);
      const place = { name, url: way.url, schema: "machines" };
      const cluster = new Cluster({ place, leaseDuration: 3000, work: 2 }, context);
      const [webs] = await Promise.all([
        Promise.all([cluster.start("web"), cluster.start("web")]),
        Promise.all([cluster.start("worker"), cluster.start("worker"), cluster.start("worker")]),
      ]);

      const statuses: number[] = [];
      const accepted: string[] = [];
      let stopped = false;
      /** Sends new events to either machine until each is answered 200, as the platform does. */
      const sending = inTurns(Array.from({ length: 10 }), 10, async () => {
        while (!stopped) {
          const { eventId, bookingCode } = eventOf(`B${random.below(50)}`);
          for (let status = 0; status !== 200 && !stopped; ) {
            status = await cluster.post(random.pick(webs) as Machine, eventId, bookingCode);
            statuses.push(status);
            if (status === 200) accepted.push(eventId);
            // A shorter wait would only add events that are still pending at the end.
            await new Promise((resolve) => setTimeout(resolve, status === 200 ? 20 : 50));
          }
        }
      });
      const grows = async (count: () => number, by: number) => {
        const before = count();
        await cluster.until(() => expect(count()).toBeGreaterThanOrEqual(before + by));
      };
      const answered = (status: number) => () => statuses.filter((each) => each === status).length;
      const handled = () => cluster.history.of("done").length;

      await grows(answered(200), 100);
      way.cut();
      await grows(answered(503), 10);
      way.restore();
      await grows(answered(200), 100);
      await grows(handled, 50);
      await server.kill();
      await grows(answered(503), 10);
      await server.start();
      await grows(answered(200), 100);
      await grows(handled, 50);
      stopped = true;
      await sending;

      const { store } = await openPlace({ ...place, url: server.url });
      context.onTestFinished(() => store.close());
      await cluster.until(async () =>
        expect(await store.counts()).toMatchObject({ pending: 0, processing: 0, retrying: 0, parked: 0 }),
      );
      expect([...new Set(statuses)].sort()).toEqual([200, 503]);
      const { history } = cluster;
      // Compare only accepted events. An event answered 503 is recorded if the connection broke after the commit.
      const begun = new Set(history.of("began").map(({ eventId }) => eventId));
      expect(accepted.filter((eventId) => !begun.has(eventId))).toEqual([]);
      expect((await store.counts()).done).toBeGreaterThanOrEqual(accepted.length);
      expect([...history.overlaps(), ...history.doneAgain()]).toEqual([]);
    });
  },
);
