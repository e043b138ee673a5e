import { expect, test } from "vitest";
import { describeEvery, opened } from "./stores.ts";

describeEvery(
  () => true,
  (kind) => {
    test("the history says what changed, from and to", async () => {
      const store = opened(await kind.create());
      const handle = async (eventId: string, status: string, checkIn: string, changed = true) => {
        const event = { eventId, ref: "booking:HX3K9", source: "webhook", topic: null } as const;
        await store.add({ ...event, timestamp: "2026-05-01T12:00:00.000Z", notification: "{}" });
        const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000, eventId });
        const record = { snapshot: { status, fields: { checkIn, guests: 2, note: null } }, changed };
        const entry = { duration: 5 };
        await store.settle(claim!, { state: "done", type: `booking.${status}`, record, entry });
        return (await store.get(eventId))?.history.map(({ changes }) => changes);
      };
      expect(await handle("first", "Request", "2027-01-02")).toEqual([undefined]);
      expect(await handle("second", "Confirmed", "2027-01-03")).toEqual([
        {
          status: { from: "Request", to: "Confirmed" },
          checkIn: { from: "2027-01-02", to: "2027-01-03" },
        },
      ]);
      expect(await handle("same", "Confirmed", "2027-01-03", false)).toEqual([undefined]);

      const event = await store.get("second");
      const copied = opened(await kind.create());
      await copied.restore({ events: [event!], snapshots: [] });
      expect(await copied.get("second")).toEqual(event);
    });
  },
);
