import { expect, test } from "vitest";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { machineOf, startSandbox, statusesAt, statusesIn } from "../../reconcile/support.ts";
import { describeEvery, opened } from "./stores.ts";

// The tests of test/reconcile run on the memory store and on SQLite.
describeEvery(
  () => true,
  (kind) => {
    test("a pass that one machine began and another ends tells each change once", async () => {
      const sandbox = await startSandbox();
      const place = await kind.create();
      const stop = new AbortController();
      let checked = 0;
      const first = machineOf(sandbox, opened(place) as EventStore<never>, {
        reconciler: {
          concurrency: 1,
          observe: ({ kind }) => {
            if (kind === "checked" && ++checked === 5) stop.abort();
          },
        },
      });
      const codes = Array.from({ length: 12 }, (_, n) => `R${n + 10}`);
      for (const bookingCode of codes) {
        await sandbox.bookings.create({ bookingCode, status: "Request" });
        await first.notify({ bookingCode });
      }
      await first.webhooks.drain();
      for (const code of codes) await sandbox.bookings.approve(code);
      expect(await first.reconciler.run({ signal: stop.signal })).toMatchObject({ checked: 5, changed: 4 });

      const store = opened(place) as EventStore<never>;
      const second = machineOf(sandbox, store);
      // The abort came before the change of the fifth booking was recorded, so the second machine reads that one again.
      expect(await second.reconciler.run()).toMatchObject({ checked: 8, changed: 8, failed: 0 });
      await Promise.all([first.webhooks.drain(), second.webhooks.drain()]);
      const told = [...first.told, ...second.told].filter(({ status }) => status === "Confirmed");
      expect(told.map(({ record }) => record).sort()).toEqual(codes);
      expect(
        told.every(({ source, previousStatus }) => source === "reconcile" && previousStatus === "Request"),
      ).toBe(true);
      expect(await statusesIn(store)).toEqual(statusesAt(sandbox));
      expect(await second.reconciler.run()).toMatchObject({ checked: 12, changed: 0 });
    });
  },
);
