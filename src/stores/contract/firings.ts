import type { NewEvent } from "../stored-event.ts";
import { type Cases, equal, failed, handled, LONG } from "./harness.ts";

const TIMER = "stayhook:timer:booking:A:door";
const time = (day: number): string => `2026-03-0${day}T10:00:00.000Z`;
const firing = (day: number): string => `${TIMER}:${time(day)}`;
const timer = (day: number): Partial<NewEvent> => ({
  eventId: TIMER,
  source: "timer",
  timestamp: time(day),
  notification: `{"name":"door"}`,
});

export const firings: Cases = {
  "a timer has an id of its own for each time that was set, and `get` takes the timer's id, too": async (
    bench,
  ) => {
    const { store, newEvent } = bench;
    const ids = async (asked: readonly string[]) =>
      Promise.all(asked.map(async (eventId) => (await store.get(eventId))?.eventId));
    const set = (day: number) =>
      store.add(newEvent("booking:A", timer(day)), { dueIn: LONG, replace: "moved" });
    equal("add() of the timer", await set(1), "added");
    equal("add() of the same time", await set(1), "duplicate");
    equal("the ids", await ids([TIMER, firing(1), firing(2)]), [firing(1), firing(1), undefined]);
    equal("add() of another time", await set(2), "added");
    equal("the ids of the moved timer", await ids([TIMER, firing(1), firing(2)]), [
      firing(2),
      undefined,
      firing(2),
    ]);
  },

  "`list`, `replay`, `discard`, `remove` and `claim` take the id of a firing, but not that of an earlier firing":
    async ({ store, add, handle, newEvent, claim, settle, claimLater }) => {
      const other = await handle("booking:B");
      await add("booking:A", timer(1), { dueIn: LONG });
      await store.add(newEvent("booking:A", timer(2)), { dueIn: LONG, replace: "moved" });
      const listed = async (eventId: string) =>
        (await store.list({ eventId, limit: 10 })).map((event) => event.eventId);
      equal("list() of an earlier firing", await listed(firing(1)), []);
      equal("list() of the firing", await listed(firing(2)), [firing(2)]);
      equal("list() of the timer", await listed(TIMER), [firing(2)]);
      for (const after of [firing(1), firing(2)]) {
        const rest = await store.list({ limit: 10, after });
        equal(
          `list() after ${after}`,
          rest.map((event) => event.eventId),
          [other.eventId],
        );
      }
      equal("replay() of an earlier firing", await store.replay({ eventId: firing(1) }), 0);
      equal("discard() of an earlier firing", await store.discard({ eventId: firing(1) }), 0);
      equal("remove() of an earlier firing", await store.remove("booking:A", [firing(1)]), 0);
      equal("replay() of the firing", await store.replay({ eventId: firing(2) }), 1);
      equal("claim() of an earlier firing", await claim({ eventId: firing(1) }), []);
      const claimed = await claimLater(0, { eventId: firing(2) });
      equal("the id that claim() returned", claimed.eventId, firing(2));
      equal("renew()", (await store.renew([claimed], LONG)).length, 1);
      await settle(claimed, failed(0));
      const again = await claimLater(0, { eventId: TIMER });
      equal("the id and the attempt of the next claim", [again.eventId, again.attempts], [firing(2), 2]);
      await settle(again, { state: "released" });
      equal("discard() of the firing", await store.discard({ eventId: firing(2) }), 1);
      const [event] = await store.list({ eventId: firing(2), limit: 1 });
      equal("remove() of the firing", await store.remove("booking:A", [firing(2)]), 1);
      await store.restore({ events: [event!], snapshots: [] });
      equal("the restored event", await store.get(TIMER), event);
    },

  "an attempt that removes its own timer lets the same time be set again": async (bench) => {
    const { store, newEvent, claimOne, settle, get } = bench;
    const set = () => store.add(newEvent("booking:A", timer(1)), { replace: "moved" });
    for (const remove of [undefined, "timers", [firing(1)], [TIMER], ["another"]] as const) {
      equal(`add() before remove: ${remove}`, await set(), "added");
      const claimed = await claimOne();
      equal("the id of the claim", claimed.eventId, firing(1));
      await settle(claimed, { ...handled(claimed), remove });
      const again = remove === undefined || remove[0] === "another" ? "duplicate" : "added";
      if (again === "duplicate") {
        equal("the state of the timer", (await get({ eventId: firing(1) })).state, "done");
        equal(`add() after remove: ${remove}`, await set(), again);
        equal("remove()", await store.remove("booking:A", [firing(1)]), 1);
      }
    }
  },

  "the history of a timer has the attempts of one firing": async (bench) => {
    const { store, newEvent, add, claimOne, claimLater, settle, done, get } = bench;
    const historyAt = async (day: number) =>
      (await get({ eventId: firing(day) })).history.map(({ outcome }) => outcome);
    await add("booking:A", timer(1));
    await settle(await claimOne(), failed(0));
    await done(await claimLater(0));
    equal("the history of the first firing", await historyAt(1), ["retrying", "done"]);
    await store.add(newEvent("booking:A", timer(2)), { replace: "moved" });
    equal("the history of the second firing", await historyAt(2), []);
    const claimed = await claimOne();
    equal("the first attempt at the second firing", claimed.attempts, 1);
    const third = { event: newEvent("booking:A", timer(3)), replace: "moved" as const };
    await settle(claimed, { ...handled(claimed), events: [third] });
    equal("the history of a timer that its own attempt has set again", await historyAt(3), []);
    await done(await claimOne());
    equal("the history of the third firing", await historyAt(3), ["done"]);
    const fourth = { event: newEvent("booking:A", timer(4)), replace: "moved" as const };
    await add("booking:A");
    const beside = await claimOne();
    await settle(beside, { ...handled(beside), events: [fourth] });
    equal("the history of a timer that another event has set again", await historyAt(4), []);
    const last = await claimOne();
    equal("the id of the last claim", last.eventId, firing(4));
  },
};
