import type { EventStore } from "stayhook/store";
import { expect, onTestFinished, test } from "vitest";
import type { WaitingEvents } from "../../../src/webhooks/observability.ts";
import { handlerOf } from "../../webhooks/support.ts";
import { storedEvent } from "../event.ts";
import { describeEvery, opened } from "./stores.ts";

const MINUTE = 60_000;
const DAY = 86_400_000;

describeEvery(
  () => true,
  (kind) => {
    test("a timer that was set 60 days ago and fails once is a minute old, and so is a replay of what parked 20 days ago", async () => {
      const store = opened(await kind.create()) as EventStore<never>;
      const ago = (ms: number) => new Date(Date.now() - ms);
      const [due, timer] = [ago(MINUTE), "stayhook:timer:booking:A1:door-code"];
      const set = { source: "timer", ref: "booking:A1", receivedAt: ago(60 * DAY) } as const;
      await store.restore({
        events: [
          storedEvent({
            ...{ ...set, eventId: timer, timestamp: due.toISOString(), notification: '{"name":"door-code"}' },
            ...{ state: "scheduled", dueAt: due, firstDueAt: due },
          }),
          storedEvent({
            ...{ eventId: "parked", ref: "booking:B1", receivedAt: ago(20 * DAY), firstDueAt: ago(20 * DAY) },
            ...{ state: "parked", reason: "callback", dueAt: null },
          }),
        ],
        snapshots: [],
      });
      let fails = 1;
      let measured: (() => Promise<WaitingEvents>) | undefined;
      const { webhooks, platform, observed } = handlerOf({
        store,
        autoStart: false,
        recheckAfter: false,
        backoff: () => 60 * MINUTE,
        on: {
          "booking.timer.door-code": () => {
            if (fails-- > 0) throw new Error("no door");
          },
        },
        telemetry: {
          recorded: () => undefined,
          process: (_, run) => run(),
          watch: (waiting) => {
            measured = waiting;
            return () => {};
          },
        },
      });
      onTestFinished(() => webhooks.close());
      for (const code of ["A1", "B1"]) platform.booking(code, "Confirmed");
      const ageOf = async () => (await webhooks.health()).oldestWaitingAge ?? 0;
      const isFresh = (age: number, least: number) => age >= least && age < least + MINUTE;
      await webhooks.drain();
      expect(observed).toContainEqual(expect.objectContaining({ kind: "failed", firstDueAt: due }));
      expect(await ageOf()).toSatisfy((age: number) => isFresh(age, MINUTE));
      expect((await measured!()).oldestAge).toSatisfy((age: number) => isFresh(age, MINUTE));
      // The retry begins at once, but the event is as old as before.
      await store.replay({ eventId: timer });
      expect(await ageOf()).toSatisfy((age: number) => isFresh(age, MINUTE));
      await webhooks.drain();
      expect(observed).toContainEqual(expect.objectContaining({ kind: "done", firstDueAt: due }));

      await store.replay({ eventId: "parked" });
      expect(await ageOf()).toSatisfy((age: number) => isFresh(age, 0));
      expect((await measured!()).oldestAge).toSatisfy((age: number) => isFresh(age, 0));
      await webhooks.drain();
      const replayed = observed.find((event) => event.kind === "done" && event.eventId === "parked");
      expect(Date.now() - Number((replayed as { firstDueAt?: Date }).firstDueAt)).toBeLessThan(MINUTE);
    });
  },
);
