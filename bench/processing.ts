// Measures processing: events per second, the reads for a backlog of one booking, and how soon another process wakes.
import { setTimeout as sleep } from "node:timers/promises";
import { type Build, withBeside } from "./beside.ts";
import { type Callable, start, startWith } from "./calls.ts";
import type { ClientFunctions } from "./client-get.ts";
import type { StoreName } from "./open-store.ts";
import type { PlatformFunctions } from "./platform.ts";
import type { QueueFunctions } from "./queue.ts";
import type { Row, Section } from "./report.ts";
import { compare, interleaved, median, type Sample } from "./rounds.ts";

/** The most CPU time over that of a read at a concurrency of 10, and the number of pending events for one second. */
const stores: Partial<Record<StoreName, { readonly goal: number; readonly events: number }>> = {
  memory: { goal: 1.3, events: 8000 },
  SQLite: { goal: 2, events: 5000 },
  Redis: { goal: 1.7, events: 5000 },
  PostgreSQL: { goal: 1.7, events: 5000 },
  MySQL: { goal: 3, events: 2500 },
};

/** Work before the clock starts, in ms. See `warm` in queue.ts. */
const WARM = 500;
/** Work before the first round, in ms, so that the code is optimized, as in production. */
const FIRST_WARM = 8_000;

export async function endToEnd(
  rounds: number,
  ms: number,
  only?: readonly string[],
  beside?: Build,
): Promise<Section> {
  const names = (Object.keys(stores) as StoreName[]).filter((name) => !only || only.includes(name));
  const contenders = withBeside(names, beside);
  const platform = start<PlatformFunctions>("./platform.ts");
  const baseUrl = await platform.call("open");
  const reader = start<ClientFunctions>("./client-get.ts", "stayhook");
  const queues = new Map(
    contenders.map(({ key, name, folder }) => [key, startWith<QueueFunctions>(folder, "./queue.ts", name)]),
  );
  const reads = async (concurrency: number, ms: number): Promise<Sample> => {
    await reader.call("read", baseUrl, concurrency, WARM);
    return reader.call("read", baseUrl, concurrency, ms);
  };
  const handle = ({ name, key }: (typeof contenders)[number], concurrency: number, ms: number) => {
    const count = Math.ceil((stores[name]!.events * (WARM + ms)) / 1000);
    return queues.get(key)!.call("handle", baseUrl, { concurrency, warm: WARM, ms, count });
  };
  await reads(32, FIRST_WARM);
  for (const contender of contenders) await handle(contender, 32, FIRST_WARM);
  const rows: Row[] = [];
  for (const concurrency of [10, 32]) {
    const samples = await interleaved(rounds, {
      reads: () => reads(concurrency, ms),
      ...Object.fromEntries(contenders.map((each) => [each.key, () => handle(each, concurrency, ms)])),
    });
    for (const [key, each] of Object.entries(samples)) {
      const { ratio, perSecond, cpu, cpuRatio } = compare(each, samples.reads!);
      const goal = concurrency === 10 ? stores[key as StoreName]?.goal : undefined;
      rows.push({
        label: `${key === "reads" ? "the client's reads alone" : key}, ${concurrency} at once`,
        ours: key !== "reads",
        ratio,
        figures: [`${Math.round(perSecond)}/s`, `${cpu.toFixed(0)} µs`, (1 / cpuRatio).toFixed(2)],
        ...(goal !== undefined && { goal: { text: `${goal}`, met: 1 / cpuRatio <= goal } }),
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
      "callback and marks the event as done. `handled` is the number of events or reads per second. The rows are " +
      "compared with the client's reads alone, at the same concurrency: a `ratio` below 1 means fewer events, and " +
      `\`CPU, times a read\` is the CPU time of an event divided by that of a read.${crowd}`,
    goals: "The goal is a limit for `CPU, times a read`.",
    columns: ["ratio", "goal", "handled", "CPU", "CPU, times a read"],
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
