import type { BookingEvent, BookingTimerEvent, WebhookCallbacks } from "stayhook";
import type { EventStore } from "stayhook/store";
import { expect, onTestFinished, test } from "vitest";
import { handlerOf, notificationOf } from "../../webhooks/support.ts";
import { describeEvery, opened } from "./stores.ts";

type Fired = BookingTimerEvent & { atomically(write: (tx: unknown) => void): void };

const DAY = 86_400_000;
const [FIRST, ...MOVES] = [1, 2, 3, 4, 5].map((day) => new Date(Date.UTC(2026, 4, day, 15)));
const idOf = (at: Date) => `stayhook:timer:booking:A1:mail:${at.toISOString()}`;

describeEvery(
  () => true,
  (kind) => {
    test("a stay that is moved four times sends each message once, in a table with `eventId` as its key", async () => {
      const place = await kind.create();
      if (kind.isTransactional)
        await place.sql("CREATE TABLE sent (id VARCHAR(255) PRIMARY KEY, attempts INT NOT NULL)");
      const store = opened(place) as EventStore<never>;
      let at = FIRST!;
      let fails = 0;
      const tries: string[] = [];
      const sent = new Set<string>();
      const send = ({ eventId, timer, attempt, atomically }: Fired) => {
        expect(eventId).toBe(idOf(timer.at));
        tries.push(`${timer.at.getUTCDate()}, ${attempt}`);
        if (!kind.isTransactional) sent.add(eventId);
        else
          atomically((tx) => kind.write!(tx, `INSERT INTO sent VALUES ('${eventId}', ${attempt})`) as never);
        if (fails-- > 0) throw new Error("the mail server is down");
      };
      const on = {
        booking: ({ timers }: BookingEvent) => timers.set("mail", at),
        "booking.timer.mail": send,
      } as unknown as WebhookCallbacks;
      const { webhooks, platform, deliver, observed } = handlerOf({
        on,
        store,
        autoStart: false,
        backoff: () => 1,
      });
      onTestFinished(() => webhooks.close());
      const drainAll = async () => {
        for (let round = 0; round < 200; round++) {
          await webhooks.drain();
          const { pending, retrying, scheduled } = await store.counts();
          if (pending + retrying + scheduled === 0) return;
        }
        expect.fail("events wait after 200 drains");
      };
      for (const [index, next] of [FIRST!, ...MOVES].entries()) {
        at = next;
        fails = index % 2;
        platform.booking("A1", "Confirmed", {
          checkIn: at.toISOString().slice(0, 10),
          checkOut: "2026-05-09",
        });
        await deliver(notificationOf({ bookingCode: "A1" }));
        await drainAll();
        const outcomes = (await store.get(idOf(at)))?.history.map(({ outcome }) => outcome);
        expect(outcomes).toEqual(index % 2 === 1 ? ["retrying", "done"] : ["done"]);
      }
      const rows = kind.isTransactional
        ? (await place.sql("SELECT id FROM sent ORDER BY id")).map(({ id }) => id)
        : [...sent];
      expect(rows).toEqual([FIRST!, ...MOVES].map(idOf));
      expect(tries).toEqual(["1, 1", "2, 1", "2, 2", "3, 1", "4, 1", "4, 2", "5, 1"]);
      const told = observed.flatMap((each) =>
        each.kind === "done" && each.type === "booking.timer.mail" ? [each.eventId] : [],
      );
      expect(told).toEqual(rows);

      // The other ways to a timer: from outside, in the list, and by the ids of firings.
      const later = new Date(Date.now() + DAY);
      await webhooks.timers("booking:A1").set("mail", later);
      expect(await store.get(idOf(MOVES.at(-1)!))).toBeUndefined();
      expect(await store.discard({ eventId: idOf(MOVES.at(-1)!) })).toBe(0);
      const [listed] = await store.list({ source: "timer", limit: 5 });
      expect(listed).toMatchObject({ eventId: idOf(later), state: "scheduled", history: [] });
      await webhooks.timers("booking:A1").clear("mail");
      expect(await store.list({ source: "timer", limit: 5 })).toEqual([]);
    });
  },
);
