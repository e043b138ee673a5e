// Connections that end during an add, with a word or without one: a firewall forgets them, a server is replaced.

import { expect, onTestFinished, test } from "vitest";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { eventually } from "../../support/eventually.ts";
import { handlerOf, notificationOf } from "../../webhooks/support.ts";
import { CLAIM, eventOf } from "../event.ts";
import { createProxy } from "./proxy.ts";
import { describeEvery, opened } from "./stores.ts";

describeEvery(
  ({ name }) => ["PostgreSQL", "MySQL", "Redis"].includes(name),
  (kind) => {
    async function behindProxy() {
      const proxy = await createProxy(kind.url!);
      const store = opened(await kind.create(), { url: proxy.url });
      // Opens all connections of the pool.
      await Promise.all(Array.from({ length: 20 }, () => store.counts()));
      return { proxy, store };
    }

    test.each([1, 3])("that fell silent: %i notifications at once are answered 200", async (count) => {
      const { proxy, store } = await behindProxy();
      const { webhooks, deliver, platform, observed } = handlerOf({
        store: store as EventStore,
        on: { booking() {} },
      });
      onTestFinished(() => webhooks.close());
      webhooks.start();
      const send = async (bookingCode: string) => {
        platform.booking(bookingCode, "Confirmed");
        return (await deliver(notificationOf({ bookingCode }))).status;
      };
      const done = (events: number) =>
        eventually(() => expect(observed.filter(({ kind }) => kind === "done")).toHaveLength(events));
      expect(await send("FIRST")).toBe(200);
      await done(1);
      proxy.stall();
      const codes = Array.from({ length: count }, (_, n) => `B${n}`);
      // The handler answers 503 after 10 s.
      expect(await Promise.all(codes.map(send))).toEqual(codes.map(() => 200));
      await done(count + 1);
    });

    test("that end before an answer: the add is sent again, and says `added`", async () => {
      const { proxy, store } = await behindProxy();
      let lost = 0;
      for (let nth = 1, wasLost = true; wasLost; nth += 1) {
        const losing = proxy.loseAnswer(nth);
        expect(await store.add(eventOf(`booking:${nth}`))).toBe("added");
        losing.forget();
        wasLost = await losing.lost;
        if (wasLost) lost = nth;
      }
      expect(lost).toBeGreaterThan(0);
      expect(await store.claim({ ...CLAIM, limit: 100 })).toHaveLength(lost + 1);
    });
  },
);
