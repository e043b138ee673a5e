import { expect, test } from "vitest";
import { CLAIM, DONE, eventOf, storedEvent } from "../event.ts";
import { describeEvery, opened } from "./stores.ts";

describeEvery(
  () => true,
  (kind) => {
    test("an event whose id another record has makes nothing due", async () => {
      const store = opened(await kind.create());
      const event = eventOf("booking:A");
      await store.add(event);
      const [claim] = await store.claim(CLAIM);
      await store.settle(claim!, DONE);
      const other = storedEvent({ eventId: event.eventId, ref: "booking:B", dueAt: new Date(0) });
      await store.restore({ events: [other], snapshots: [] });
      expect(await store.nextDue()).toBeUndefined();
      expect(await store.get(event.eventId)).toMatchObject({ ref: "booking:A", state: "done" });
    });

    test("an event that is due before all others is claimed at once, also by a claim that leaves others out", async () => {
      const store = opened(await kind.create());
      const claim = () => store.claim({ ...CLAIM, except: ["out/"] });
      await store.add(eventOf("out/booking:A"));
      expect([await claim(), await claim()]).toEqual([[], []]);
      const old = new Date(Date.now() - 60_000);
      const event = storedEvent({ ref: "in/booking:B", receivedAt: old, dueAt: old });
      await store.restore({ events: [event], snapshots: [] });
      expect(await claim()).toMatchObject([{ ref: "in/booking:B" }]);
    });
  },
);
