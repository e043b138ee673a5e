// Measures how many notifications per second are answered 200. The base is a server that only parses JSON.
import { type Build, withBeside } from "./beside.ts";
import { start, startWith } from "./calls.ts";
import type { IntakeFunctions } from "./intake-server.ts";
import type { LoadFunctions, LoadResult } from "./load.ts";
import type { Row, Section } from "./report.ts";
import { compare, interleaved, median, type Sample } from "./rounds.ts";
import { type Scheme, secrets } from "./secrets.ts";

interface Contestant {
  readonly label: string;
  readonly goal?: number;
  /** The most CPU time for a request, in µs. */
  readonly cpuGoal?: number;
  readonly ours?: boolean;
  readonly path?: string;
  readonly scheme?: Scheme;
  /** The contestant to compare with. Default: `bare`. */
  readonly base?: string;
}

const contestants: Readonly<Record<string, Contestant>> = {
  bare: { label: "`node:http` + `JSON.parse`" },
  zod: { label: "the same + a zod parse" },
  memory: { label: "stayhook, memory", ours: true, goal: 0.75, cpuGoal: 36 },
  sharedSecret: {
    label: "stayhook, memory, `sharedSecret` (line above = 1)",
    ours: true,
    goal: 0.9,
    base: "memory",
    path: `/hooks?key=${secrets.query}`,
  },
  stripe: { label: "stripe: verifies, stores nothing", scheme: "stripe" },
  svix: { label: "svix: verifies, stores nothing", scheme: "svix" },
  octokit: { label: "octokit: verifies, stores nothing", scheme: "octokit" },
  SQLite: { label: "stayhook, SQLite, on the disk", ours: true, goal: 0.4, cpuGoal: 62 },
  sqliteInserts: { label: "plain inserts in groups, SQLite" },
  PostgreSQL: { label: "stayhook, PostgreSQL", ours: true, goal: 0.3, cpuGoal: 45 },
  postgresInserts: { label: "plain inserts in groups, PostgreSQL" },
  Redis: { label: "stayhook, Redis, `appendfsync always`", ours: true, goal: 0.3, cpuGoal: 48 },
  MySQL: { label: "stayhook, MariaDB", ours: true },
  bareFetch: { label: "a bare handler through `Request` and `Response`" },
  fetch: { label: "`webhooks.fetch` (line above = 1)", ours: true, goal: 0.97, base: "bareFetch" },
};

/** The contestants that run without sockets, with the most CPU time for a request, in µs. */
const inProcess: Readonly<Record<string, number | undefined>> = {
  bare: undefined,
  zod: undefined,
  stripe: undefined,
  memory: 12.5,
};

/** Load before the clock starts, in ms, so that database connections are open and memory is in use. */
const WARM = 600;
/** Load before a server's first round, in ms, so that its code is optimized, as in production. */
const FIRST_WARM = 4_000;

export async function intake(
  rounds: number,
  ms: number,
  only?: readonly string[],
  beside?: Build,
): Promise<Section> {
  const names = Object.keys(contestants).filter((name) => !only || only.includes(name));
  const contenders = withBeside(names, beside, (name) => contestants[name]!.ours === true);
  const generator = start<LoadFunctions>("./load.ts");
  const servers = new Map(
    contenders.map(({ key, name, folder }) => [
      key,
      { name, server: startWith<IntakeFunctions>(folder, "./intake-server.ts", name) },
    ]),
  );
  const ports = new Map<string, number>();
  const run = (key: string, length: number): Promise<LoadResult> => {
    const { path = "/hooks", scheme } = contestants[servers.get(key)!.name]!;
    return generator.call("run", { port: ports.get(key)!, path, scheme, ms: length });
  };
  // Keep each server open for all rounds, as in production. V8 would optimize the closures of a second handler in the
  // same process less.
  for (const [key, { server }] of servers) {
    ports.set(key, await server.call("open"));
    await run(key, FIRST_WARM);
  }
  const loads = new Map(contenders.map(({ key }) => [key, [] as number[]]));
  const measure = async (key: string): Promise<Sample> => {
    const { server } = servers.get(key)!;
    await run(key, WARM);
    const before = await server.call("cpu");
    const { perSecond, answered, load } = await run(key, ms);
    loads.get(key)!.push(load);
    const after = await server.call("cpu");
    return { perSecond, cpu: (after.user + after.system - before.user - before.system) / answered };
  };
  const samples = await interleaved(
    rounds,
    Object.fromEntries(contenders.map(({ key }) => [key, () => measure(key)])),
  );
  await Promise.all(
    [generator, ...Array.from(servers.values(), ({ server }) => server)].map((each) => each.end()),
  );
  const rows = contenders.map(({ name, key, suffix }): Row => {
    const { label, ours = false, goal, cpuGoal, base = "bare" } = contestants[name]!;
    const { ratio, perSecond, cpu, cpuRatio } = compare(samples[key]!, samples[base] ?? samples[key]!);
    const limit = cpuGoal === undefined ? "" : `≤ ${cpuGoal} µs${cpu <= cpuGoal ? "" : ", missed"}`;
    const load = `${(100 * median(loads.get(key)!)).toFixed(0)} %`;
    const figures = [`${Math.round(perSecond)}/s`, `${cpu.toFixed(0)} µs`, limit, cpuRatio.toFixed(2), load];
    return {
      label: label + suffix,
      ours,
      ratio,
      figures,
      ...(goal !== undefined && { goal: { least: goal } }),
    };
  });
  return {
    name: "intake",
    title: "Notifications taken in",
    text:
      "A load generator keeps 50 connections open. `answered` is the number of HTTP answers per second. `CPU` " +
      "is the web server's CPU time for one request, without the time of the database server. Both ratios " +
      "compare each row with the first row, or with the row above if the label says `line above = 1`. A " +
      "`ratio` below 1 means fewer answers. A `CPU ratio` below 1 means more CPU time. `generator` is the load " +
      "generator's share of a core: near 100 %, the generator limits the row. stayhook always records the event " +
      "before it answers.",
    columns: ["ratio", "goal", "answered", "CPU", "CPU goal", "CPU ratio", "generator"],
    rows,
    plot: true,
  };
}

/** Measures the JavaScript alone. A socket is a stream of the server's process, so the kernel has no part in it. */
export async function intakeInProcess(rounds: number, ms: number): Promise<Section> {
  const names = Object.keys(inProcess);
  const servers = new Map(names.map((name) => [name, start<IntakeFunctions>("./intake-server.ts", name)]));
  const run = (name: string, length: number): Promise<number> => {
    const { path = "/hooks", scheme } = contestants[name]!;
    return servers.get(name)!.call("answerInProcess", length, path, scheme);
  };
  for (const [name, server] of servers) {
    await server.call("open");
    await run(name, FIRST_WARM);
  }
  const measure = async (name: string): Promise<Sample> => {
    const server = servers.get(name)!;
    const before = await server.call("cpu");
    const answered = await run(name, ms);
    const after = await server.call("cpu");
    const cpu = (after.user + after.system - before.user - before.system) / answered;
    return { perSecond: (answered / ms) * 1000, cpu };
  };
  const samples = await interleaved(
    rounds,
    Object.fromEntries(names.map((name) => [name, () => measure(name)])),
  );
  await Promise.all([...servers.values()].map((server) => server.end()));
  return {
    name: "in-process",
    title: "Notifications taken in, without sockets",
    text:
      "The web server and 50 fake sockets share one process, so that neither the kernel nor a load generator counts. " +
      "`CPU` is the time for one request, with the fake socket. The ratio compares each row with the first row.",
    columns: ["ratio", "goal", "answered", "CPU", "CPU goal"],
    rows: names.map((name): Row => {
      const { label, ours = false } = contestants[name]!;
      const { ratio, perSecond, cpu } = compare(samples[name]!, samples.bare!);
      const goal = inProcess[name];
      const limit = goal === undefined ? "" : `≤ ${goal} µs${cpu <= goal ? "" : ", missed"}`;
      return { label, ours, ratio, figures: [`${Math.round(perSecond)}/s`, `${cpu.toFixed(1)} µs`, limit] };
    }),
  };
}
