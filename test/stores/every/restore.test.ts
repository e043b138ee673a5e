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
  },
);
