import { expect, test } from "vitest";
import { describeEvery, opened } from "./stores.ts";

describeEvery(
  () => true,
  (kind) => {
    test("a snapshot keeps the stay that the user knows, also in a copy", async () => {
      const store = opened(await kind.create());
      const snapshot = { status: "CheckedIn", fields: { listingId: 7 }, known: `{"statuses":["Confirmed"]}` };
      const event = { eventId: "one", ref: "booking:HX3K9", source: "webhook", topic: null } as const;
      await store.add({ ...event, timestamp: "2026-05-01T12:00:00.000Z", notification: "{}" });
      const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
      const record = { snapshot, changed: true };
      await store.settle(claim!, { state: "done", type: "booking.unknown", record, entry: { duration: 5 } });
      const known = await store.snapshotOf("booking:HX3K9");
      expect(known?.snapshot).toEqual(snapshot);
      expect(await store.learn("booking:HX3K9", snapshot)).toBe(true);
      expect(await store.learn("booking:HX3K9", { ...snapshot, known: "{}" })).toBe(false);
      const copied = opened(await kind.create());
      await copied.restore({ events: [], snapshots: [known!] });
      expect(await copied.snapshotOf("booking:HX3K9")).toEqual(known);
    });
  },
);
