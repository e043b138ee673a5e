import { between, check, equal } from "./expect.ts";
import { type Cases, failed, handled, parked, unreachable } from "./harness.ts";

export const histories: Cases = {
  "each attempt leaves an entry": async (bench) => {
    const { add, claimOne, claimLater, settle, get } = bench;
    const event = await add("booking:A");
    equal("the history of a new event", (await get(event)).history, []);
    const worker = "höst-1:42";
    const claims = [await claimOne({ worker })];
    await settle(claims[0]!, {
      ...failed(0),
      entry: { duration: 12, reason: "callback", error: "one: cause" },
    });
    claims.push(await claimLater(0));
    await settle(claims[1]!, {
      ...unreachable(0),
      entry: { duration: 0, reason: "unavailable", error: "two" },
    });
    claims.push(await claimLater(0, { worker: "host-2:7" }));
    await settle(claims[2]!, { ...handled(claims[2]!, "Confirmed"), entry: { duration: 3 } });
    const { history, lastError, reason } = await get(event);
    const at = claims.map(({ claimedAt }) => new Date(claimedAt));
    equal("the history", history, [
      { at: at[0], duration: 12, outcome: "retrying", reason: "callback", error: "one: cause", worker },
      { at: at[1], duration: 0, outcome: "retrying", reason: "unavailable", error: "two" },
      { at: at[2], duration: 3, outcome: "done", worker: "host-2:7" },
    ]);
    equal("lastError and reason of a done event", [lastError, reason], [null, null]);
    equal("the history by list", (await bench.store.list({ limit: 1 }))[0]?.history, history);
  },

  "lastError is the last entry's": async ({ add, claimOne, claimLater, settle, get }) => {
    const event = await add("booking:A");
    await settle(await claimOne(), failed(0));
    equal("lastError", (await get(event)).lastError, "the callback failed");
    await settle(await claimLater(0), { ...failed(0), entry: { duration: 1 } });
    equal("lastError, after a failure without an error", (await get(event)).lastError, null);
    await settle(await claimLater(0), parked());
    const { lastError, history } = await get(event);
    equal("lastError, once parked", lastError, "given up");
    equal(
      "outcomes",
      history.map(({ outcome }) => outcome),
      ["retrying", "retrying", "parked"],
    );
  },

  "the last 10 entries are kept": async ({ add, claimOne, claimLater, settle, get }) => {
    const event = await add("booking:A");
    await settle(await claimOne(), failed(0));
    for (let attempt = 2; attempt <= 13; attempt++) {
      const entry = { duration: attempt, reason: "callback", error: `failure ${attempt}` } as const;
      await settle(await claimLater(0), { ...failed(0), entry });
    }
    const { history, attempts } = await get(event);
    equal(
      "durations of the kept entries",
      history.map(({ duration }) => duration),
      [4, 5, 6, 7, 8, 9, 10, 11, 12, 13],
    );
    equal("attempts", attempts, 13);
  },

  "a claim after a lease's end leaves a lost entry": async ({
    add,
    claimOne,
    claimLater,
    done,
    get,
    unit,
  }) => {
    const event = await add("booking:A");
    const lost = await claimOne({ leaseDuration: 2 * unit, worker: "dead:1" });
    equal("the history while it is processed", (await get(event)).history, []);
    const held = await claimLater(0, { worker: "alive:2" });
    const { history, lastError, reason } = await get(event);
    equal("the history", [history.length, lastError, reason], [1, null, null]);
    const { duration, ...rest } = history[0]!;
    equal("the lost entry", rest, { at: new Date(lost.claimedAt), outcome: "lost", worker: "dead:1" });
    between("its duration, from the claim to the lease's end", duration, 2 * unit - 1, 2 * unit + 1);
    await done(held);
    const { history: whole } = await get(event);
    equal(
      "outcomes and workers",
      whole.map(({ outcome, worker }) => [outcome, worker]),
      [
        ["lost", "dead:1"],
        ["done", "alive:2"],
      ],
    );
    equal("at of the last entry", whole[1]!.at, new Date(held.claimedAt));
  },

  "a lost entry's duration counts renewals": async ({
    add,
    claimOne,
    claimLater,
    get,
    store,
    sleep,
    unit,
  }) => {
    const event = await add(null);
    const lost = await claimOne({ leaseDuration: 4 * unit });
    await sleep(1);
    equal("renew", (await store.renew([lost], 4 * unit)).length, 1);
    const end = Number((await get(event)).dueAt);
    await claimLater(0);
    const { duration } = (await get(event)).history[0]!;
    // A store may keep its times more exactly than in ms.
    const expected = end - lost.claimedAt;
    between("its duration", duration, expected - 1, expected + 1);
  },

  "a released attempt leaves no entry": async ({ add, claimOne, settle, get }) => {
    const event = await add("booking:A");
    await settle(await claimOne(), { state: "released" });
    equal("the history", (await get(event)).history, []);
  },

  "a replay keeps the history": async ({ store, add, claimOne, settle, done, get }) => {
    const event = await add("booking:A");
    await settle(await claimOne(), parked());
    const before = await get(event);
    await store.replay({ eventId: event.eventId });
    const replayed = await get(event);
    equal("the history", replayed.history, before.history);
    equal("lastError and reason", [replayed.lastError, replayed.reason], ["given up", null]);
    await done(await claimOne());
    const { history } = await get(event);
    equal(
      "outcomes",
      history.map(({ outcome }) => outcome),
      ["parked", "done"],
    );
    check(history[1]!.at >= history[0]!.at, "at: expected the later entry to be last");
  },

  "an error's text may hold anything": async ({ add, claimOne, settle, get }) => {
    for (const error of [
      "quotes '\" \\ ; --",
      "日本 🎉",
      "lone \ud800 and \udfff",
      "tab\tline\nend",
      '{"json":[]}',
    ]) {
      const event = await add(null);
      await settle(await claimOne(), { ...parked(), entry: { duration: 1, reason: "callback", error } });
      const { history, lastError } = await get(event);
      equal("the entry's error, and lastError", [history[0]!.error, lastError], [error, error]);
    }
  },
};
