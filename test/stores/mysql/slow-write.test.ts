import { expect, onTestFinished, test } from "vitest";
import { createDatabases, describeMysql } from "./support.ts";

describeMysql("a slow write of event.atomically", () => {
  const databases = createDatabases();
  const event = (number: number) =>
    ({
      eventId: `0d4fd8a6-35a5-4f0c-9b0e-00000000000${number}`,
      ref: "booking:HX3K1",
      source: "webhook",
      topic: null,
      timestamp: "2026-05-01T12:00:00.000Z",
      notification: "{}",
    }) as const;

  test("holds up no add for the same booking, and the added event is due afterwards", async () => {
    const store = await databases.store();
    onTestFinished(() => store.close());
    await store.add(event(1));
    const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
    let isAdded = false;
    const write = async () => {
      await store.add(event(2));
      isAdded = true;
    };
    const entry = { duration: 1 };
    expect(
      await store.settle(claim!, { state: "done", type: "booking.Confirmed", entry, writes: [write] }),
    ).toBe(true);
    expect(isAdded).toBe(true);
    expect(await store.claim({ limit: 1, leaseDuration: 60_000 })).toMatchObject([
      { eventId: event(2).eventId },
    ]);
  });
});
