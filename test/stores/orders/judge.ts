// The invariants that hold after each order, and the results that some order of the whole calls gives.
import { setTimeout as sleep } from "node:timers/promises";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { MemoryStore } from "../../../src/stores/memory/memory-store.ts";
import type { ClaimedEvent } from "../../../src/stores/stored-event.ts";
import { begin, type Call, REF, type Scene, type State } from "./calls.ts";
import type { Place } from "./places.ts";

/** What one order left behind, without times. Equal texts are equal results. */
export function resultOf(answers: readonly unknown[], left: string, writes: number): string {
  return JSON.stringify({ answers: answers.map(shownAnswer), left: JSON.parse(left), writes });
}

function shownAnswer(answer: unknown): unknown {
  if (!Array.isArray(answer)) return answer ?? null;
  return (answer as ClaimedEvent[]).map(({ eventId, attempts, outages, replayed, sequence, timestamp }) =>
    [eventId, attempts, outages, replayed, sequence, timestamp].join(" "),
  );
}

/** Reads what calls can see of a store. A time is `now`, `later` or `none`. */
export async function look(store: EventStore<unknown>): Promise<string> {
  const now = Date.now();
  const when = (date: Date | null) =>
    date === null ? "none" : Number(date) > now + 10_000 ? "later" : "now";
  const [listed, snapshot, counts] = await Promise.all([
    store.list({ limit: 100 }),
    store.snapshotOf(REF),
    store.counts(),
  ]);
  const events = listed.map((event) => ({
    id: event.eventId,
    ...{ state: event.state, attempts: event.attempts, due: when(event.dueAt), reason: event.reason },
    ...{ timestamp: event.timestamp, history: event.history.map(({ outcome }) => outcome).join() },
  }));
  return JSON.stringify({
    events: events.sort((a, b) => (a.id < b.id ? -1 : 1)),
    snapshot: snapshot && [snapshot.snapshot.status, snapshot.sequence],
    counts,
  });
}

/** Returns every result that the memory store gives, for each order of the calls as a whole. */
export async function allowed(calls: readonly Call[], state: State): Promise<ReadonlySet<string>> {
  const results = new Set<string>();
  const variants = calls.map(({ parts, run, mayFindNothing, loses }) => {
    const all = parts ?? [run];
    const fewer = loses === undefined ? [[]] : [[], all.slice(0, 2), all.slice(2)];
    return mayFindNothing ? [all, ...fewer] : [all];
  });
  for (const chosen of product(variants)) {
    for (const order of interleavings(chosen.map(({ length }) => length))) {
      const store: EventStore<unknown> = new MemoryStore<unknown>((run) => run(undefined));
      const held = await begin(store, state);
      let writes = 0;
      const write = async () => {
        writes += 1;
      };
      const scenes = calls.map((): Scene => ({ store, held, write, gate: (_, run) => run(), memo: {} }));
      const answers: unknown[] = calls.map(() => []);
      const next = calls.map(() => 0);
      for (const index of order) {
        answers[index] = await chosen[index]![next[index]!]!(scenes[index]!);
        next[index]! += 1;
        // A released event is due at another time than an event that was added before.
        if (order.length > calls.length) await sleep(2);
      }
      results.add(resultOf(answers, await look(store), writes));
      await store.close();
    }
  }
  return results;
}

function product<T>(lists: readonly (readonly T[])[]): T[][] {
  return lists.reduce<T[][]>(
    (found, list) => found.flatMap((each) => list.map((item) => [...each, item])),
    [[]],
  );
}

function interleavings(left: readonly number[]): number[][] {
  if (left.every((count) => count === 0)) return [[]];
  return left.flatMap((count, index) =>
    count === 0 ? [] : interleavings(left.with(index, count - 1)).map((rest) => [index, ...rest]),
  );
}

/** Checks what must hold whatever the calls were. Returns what is wrong. */
export async function invariants({ plain }: Place): Promise<string | undefined> {
  const now = Date.now();
  const [listed, next] = await Promise.all([plain.list({ limit: 100 }), plain.nextDue()]);
  const open = listed.filter(({ dueAt }) => dueAt !== null).sort((a, b) => Number(a.dueAt) - Number(b.dueAt));
  const live = open.filter(({ state, dueAt }) => state === "processing" && Number(dueAt) > now + 1000);
  if (live.length > 1) return `two attempts at once: ${live.map(({ eventId }) => eventId)}`;
  const first = live[0] ?? open[0];
  if (first !== undefined) {
    const due = Math.max(0, Number(first.dueAt) - now);
    if (next === undefined)
      return `${first.eventId} is ${first.state}, but nextDue() says that nothing is due`;
    if (next > due + 1000) return `${first.eventId} is due in ${due} ms, but nextDue() says ${next}`;
  }
  const mayClaim = live.length === 0 && first !== undefined && Number(first.dueAt) <= now;
  let claims: ClaimedEvent[] = [];
  // A transaction that was cut off may hold its locks for a moment.
  for (const until = now + 3000; claims.length === 0 && Date.now() < until; ) {
    claims = await plain.claim({ limit: 100, leaseDuration: 60_000 });
    if (!mayClaim || claims.length > 0) break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const [found] = claims;
  if (mayClaim && found === undefined) return `${first.eventId} waits, but no claim finds it`;
  if (!mayClaim && found !== undefined) return `a claim got ${found.eventId}, but nothing could be claimed`;
  const before = open.find(({ eventId }) => eventId === found?.eventId)?.attempts ?? 0;
  if (found !== undefined && found.attempts !== before + 1)
    return `a claim counts ${found.attempts} attempts after ${before}`;
  return undefined;
}
