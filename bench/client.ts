// Compares reads of one booking by this client, `fetch` and other clients.
import { start } from "./calls.ts";
import type { ClientFunctions } from "./client-get.ts";
import type { PlatformFunctions } from "./platform.ts";
import type { Row, Section } from "./report.ts";
import { compare, interleaved } from "./rounds.ts";

const contestants: Readonly<Record<string, string>> = {
  fetch: "`fetch` + `json()`",
  stayhook: "stayhook",
  undici: "stayhook, `undiciFetch`",
  kyZod: "ky + zod",
  openai: "openai",
};

/** The goal: a read takes at most this many times as long as a read by ky and zod in the same run. */
const most = 1.15;
/** The goals of a read by `undiciFetch`, as a multiple of the time of a read by `fetch`, by the number of reads at once. */
const mostByUndici: Readonly<Record<number, number>> = { 1: 1.25, 32: 1.35 };

export async function clientReads(rounds: number, ms: number): Promise<Section> {
  const platform = start<PlatformFunctions>("./platform.ts");
  const baseUrl = await platform.call("open");
  const names = Object.keys(contestants);
  const clients = new Map(names.map((name) => [name, start<ClientFunctions>("./client-get.ts", name)]));
  const rows: Row[] = [];
  for (const atOnce of [1, 32]) {
    const samples = await interleaved(
      rounds,
      Object.fromEntries(
        [...clients].map(([name, client]) => [name, () => client.call("read", baseUrl, atOnce, ms)]),
      ),
    );
    const goal = { most: Number((most / compare(samples.kyZod!, samples.fetch!).ratio).toFixed(2)) };
    for (const name of names) {
      const { ratio, perSecond, cpu, cpuRatio } = compare(samples[name]!, samples.fetch!);
      rows.push({
        label: `${contestants[name]}, ${atOnce} at once`,
        ours: name === "stayhook" || name === "undici",
        ratio: 1 / ratio,
        figures: [`${Math.round(perSecond)}/s`, `${cpu.toFixed(0)} µs`, (1 / cpuRatio).toFixed(2)],
        ...(name === "stayhook" && { goal }),
        ...(name === "undici" && { goal: { most: mostByUndici[atOnce]! } }),
      });
    }
  }
  await Promise.all([platform, ...clients.values()].map((each) => each.end()));
  return {
    name: "client",
    title: "Reads by the client",
    text:
      "The ratio compares the time of a read with the time of `fetch` + `json()`. `reads` is the number of " +
      "reads per second. `CPU` is the CPU time of a read, and the CPU ratio compares the CPU times. For both " +
      "ratios, less is better.",
    goals: `The goal of stayhook is ${most} times the time of ky + zod. With \`undiciFetch\`, it is 1.25 times the time of \`fetch\` for one read at a time, and 1.35 times for 32.`,
    columns: ["ratio", "goal", "reads", "CPU", "CPU ratio"],
    rows,
  };
}
