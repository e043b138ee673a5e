// Measures processing: events per second, the reads for a backlog of one booking, and how soon another process wakes.
import { setTimeout as sleep } from "node:timers/promises";
import { type Callable, start } from "./calls.ts";
import type { ClientFunctions } from "./client-get.ts";
import type { StoreName } from "./open-store.ts";
import type { PlatformFunctions } from "./platform.ts";
import type { QueueFunctions } from "./queue.ts";
import type { Row, Section } from "./report.ts";
import { compare, interleaved, median, type Sample } from "./rounds.ts";

/** The goal at a concurrency of 32, and the number of pending events for a round of one second. */
const stores: Partial<Record<StoreName, { readonly goal?: number; readonly events: number }>> = {
  memory: { goal: 0.75, events: 8000 },
  SQLite: { goal: 0.55, events: 5000 },
  Redis: { goal: 0.5, events: 5000 },
  PostgreSQL: { goal: 0.55, events: 5000 },
  MySQL: { events: 2500 },
};

/** Work before the clock starts, in ms. See `warm` in queue.ts. */
const WARM = 500;
/** Work before the first round, in ms, so that the code is optimized, as in production. */
const FIRST_WARM = 8_000;

export async function endToEnd(rounds: number, ms: number, only?: readonly string[]): Promise<Section> {
  const names = (Object.keys(stores) as StoreName[]).filter((name) => !only || only.includes(name));
  const platform = start<PlatformFunctions>("./platform.ts");
  const baseUrl = await platform.call("open");
  const reader = start<ClientFunctions>("./client-get.ts", "stayhook");
  const queues = new Map(names.map((name) => [name, start<QueueFunctions>("./queue.ts", name)]));
  const reads = async (concurrency: number, ms: number): Promise<Sample> => {
    await reader.call("read", baseUrl, concurrency, WARM);
    return reader.call("read", baseUrl, concurrency, ms);
  };
  const handle = (name: StoreName, concurrency: number, ms: number): Promise<Sample> => {
    const count = Math.ceil((stores[name]!.events * (WARM + ms)) / 1000);
    return queues.get(name)!.call("handle", baseUrl, { concurrency, warm: WARM, ms, count });
  };
  await reads(32, FIRST_WARM);
  for (const name of names) await handle(name, 32, FIRST_WARM);
  const rows: Row[] = [];
  for (const concurrency of [10, 32]) {
    const samples = await interleaved(rounds, {
      reads: () => reads(concurrency, ms),
      ...Object.fromEntries(names.map((name) => [name, () => handle(name, concurrency, ms)])),
    });
    for (const [name, each] of Object.entries(samples)) {
      const { ratio, perSecond, cpu, cpuRatio } = compare(each, samples.reads!);
      const goal = concurrency === 32 ? stores[name as StoreName]?.goal : undefined;
      rows.push({
        label: `${name === "reads" ? "the client's reads alone" : name}, ${concurrency} at once`,
        ours: name !== "reads",
        ratio,
        figures: [`${Math.round(perSecond)}/s`, `${cpu.toFixed(0)} µs`, cpuRatio.toFixed(2)],
        ...(goal !== undefined && { goal: { least: goal } }),
      });
    }
  }
  const crowd = await readsForCrowd(platform, baseUrl, queues.get("memory"));
  await Promise.all([platform, reader, ...queues.values()].map((each) => each.end()));
  return {
    name: "end-to-end",
    title: "Events handled",
    text:
      "The handler claims each event, reads its booking from a platform in another process, runs the " +
      "callback and marks the event as done. `handled` is the number of events or reads per second. Both " +
      "ratios compare a row with the client's reads alone, at the same concurrency. A `ratio` below 1 " +
      `means fewer events. A \`CPU ratio\` below 1 means more CPU time for each event.${crowd}`,
    columns: ["ratio", "goal", "handled", "CPU", "CPU ratio"],
    rows,
    plot: true,
  };
}

async function readsForCrowd(
  platform: Callable<PlatformFunctions>,
  baseUrl: string,
  queue: Callable<QueueFunctions> | undefined,
): Promise<string> {
  if (!queue) return "";
  await platform.call("reads");
  await queue.call("handle", baseUrl, { concurrency: 10, count: 1000, ms: 20_000, ofOne: true });
  const reads = await platform.call("reads");
  return ` For 1,000 waiting events of one booking, the number of the handler's reads was ${reads}.`;
}

/** Idle time of a process before another one wakes it, in ms. */
const REST = 40;

export async function wakes(times: number): Promise<Section> {
  const names = ["SQLite", "PostgreSQL", "Redis"] as const;
  const took: Record<(typeof names)[number], number[]> = { SQLite: [], PostgreSQL: [], Redis: [] };
  const pairs = await Promise.all(
    names.map(async (name) => {
      const [waiter, adder] = [
        start<QueueFunctions>("./queue.ts", name),
        start<QueueFunctions>("./queue.ts", name),
      ];
      return { name, waiter, adder, place: await waiter.call("listen") };
    }),
  );
  await sleep(500);
  for (let time = -3; time < times; time += 1) {
    for (const { name, waiter, adder, place } of pairs) {
      await sleep(REST);
      const { eventId, at } = await adder.call("add", place);
      const ms = (await waiter.call("claimedAt", eventId)) - at;
      if (time >= 0) took[name].push(ms);
    }
  }
  for (const { adder } of pairs) await adder.end();
  for (const { waiter } of pairs) await waiter.end();
  const base = median(took.SQLite);
  return {
    name: "wake",
    title: "Waking another process",
    text:
      "The measured time begins when a process calls `add`, and ends when `claim` returns in another process, " +
      "which was idle. The ratio compares each median with the median of SQLite. MySQL is not measured: MySQL cannot notify, so its store polls once a second.",
    goals: "The goal is a limit for the median, not for the ratio.",
    columns: ["ratio", "goal", "median", "p90"],
    rows: names.map((name) => ({
      label: name,
      ours: true,
      ratio: median(took[name]) / base,
      figures: [median(took[name]), took[name].toSorted((a, b) => a - b)[Math.floor(times * 0.9)]!].map(
        (ms) => `${ms.toFixed(2)} ms`,
      ),
      ...(name !== "SQLite" && { goal: { text: "2 ms", met: median(took[name]) <= 2 } }),
    })),
  };
}
