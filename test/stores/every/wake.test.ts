import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { startProcess } from "../processes.ts";
import { describeEvery, type Kind, opened } from "./stores.ts";

/** How long a wake-up may take, ms. The stores' own polls are slower, except that of MySQL, which only polls. */
const AT_ONCE = 900;

/** Makes a subscribed store that has been woken once, and another handle of its database. */
async function subscribed(kind: Kind) {
  const place = await kind.create();
  const [store, other] = [opened(place), opened(place)];
  const woken = vi.fn();
  const end = store.subscribe!(woken);
  // The subscription may have to open a connection first.
  await eventually(async () => {
    await other.add(eventOf("booking:first"));
    await eventually(() => expect(woken).toHaveBeenCalled(), 500);
  });
  await other.erase("booking:first");
  await sleep(200);
  const wakes = async (act: () => Promise<unknown>) => {
    await sleep(100);
    woken.mockClear();
    await act();
    await eventually(() => expect(woken).toHaveBeenCalled(), AT_ONCE);
  };
  return { place, store, other, woken, end, wakes };
}

describeEvery(
  ({ name }) => name !== "memory",
  (kind) => {
    test("another process wakes a subscriber at once, whatever makes an event due", async () => {
      const { store, other, wakes } = await subscribed(kind);
      const event = eventOf("booking:A");
      await wakes(() => other.add(event));
      const claimOne = async () => (await other.claim(CLAIM))[0]!;
      let claim = await claimOne();
      await wakes(() => other.settle(claim, { state: "released" }));
      claim = await claimOne();
      await other.add(eventOf("booking:A"), { dueIn: 20_000 });
      await wakes(() => other.settle(claim, { ...DONE, events: [{ event: eventOf("booking:B") }] }));
      expect(await store.nextDue()).toBe(0);
      await claimOne();
      await wakes(() => other.replay({ eventId: event.eventId }));
      claim = await claimOne();
      // Nothing is due until the scheduled event is, which is sooner than the end of the lease.
      await wakes(() => other.settle(claim, DONE));
      expect(await store.nextDue()).toBeLessThanOrEqual(20_000);
    });

    test("settle that is repeated wakes its own subscriber: the first call may have got no answer", async () => {
      const { store, wakes } = await subscribed(kind);
      for (const dueIn of [0, 20_000]) await store.add(eventOf("booking:A"), { dueIn });
      const [claim] = await store.claim(CLAIM);
      await store.settle(claim!, DONE);
      await wakes(() => store.settle(claim!, DONE));
    });

    test("nobody is woken after the subscription or the store has ended", async () => {
      const { place, other, woken, end, store } = await subscribed(kind);
      const closed = place.open();
      closed.subscribe!(woken);
      await closed.close();
      end();
      await sleep(100);
      woken.mockClear();
      await other.add(eventOf());
      await store.add(eventOf());
      await sleep(1200);
      expect(woken).not.toHaveBeenCalled();
    });

    // The connections of mysql2 keep a process alive.
    if (kind.name === "MySQL") return;
    test("an open store does not keep its process alive", async () => {
      const { place } = await kind.create();
      const child = startProcess(join(import.meta.dirname, "idle.ts"), { place });
      const { code, signal, errors } = await child.ended;
      expect([code, signal, errors]).toEqual([0, null, ""]);
    });
  },
);
