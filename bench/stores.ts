// Measures stores alone: adds in groups, and the claim and the end of events.
import { type Build, withBeside } from "./beside.ts";
import { startWith } from "./calls.ts";
import { storeNames } from "./open-store.ts";
import type { Section } from "./report.ts";
import { compare, interleaved, median, type Sample } from "./rounds.ts";
import type { Measured, StoreFunctions } from "./store-calls.ts";

export async function stores(
  rounds: number,
  of: readonly string[] = storeNames,
  beside?: Build,
): Promise<Section> {
  const names = storeNames.filter((name) => of.includes(name));
  const contenders = withBeside(names, beside);
  const children = contenders.map(({ name, folder }) =>
    startWith<StoreFunctions>(folder, "./store-calls.ts", name),
  );
  const times = new Map(contenders.map(({ key }) => [key, [] as Measured[]]));
  const samples = await interleaved(
    rounds,
    Object.fromEntries(
      contenders.map(({ key }, index) => [
        key,
        async (): Promise<Sample> => {
          const measured = await children[index]!.call("measure", 2000, 50, 500);
          times.get(key)!.push(measured);
          return measured.adds;
        },
      ]),
    ),
  );
  await Promise.all(children.map((child) => child.end()));
  // The first round warms up.
  for (const measured of times.values()) measured.shift();
  return {
    name: "stores",
    title: "Stores by themselves",
    text:
      "`adds` is the number of events added per second, in groups of 50. `claims` is the number of events per second that " +
      "are claimed in groups of ten and marked as done. `CPU` is the time of the process for one of these events, without " +
      "that of a database server. `claim and end` is the time to claim one event and mark it as done. `behind a crowd` is " +
      "the same time while 500 events of another booking wait. The ratio compares `adds` of each store with `adds` of " +
      `${names[0]}.`,
    columns: ["ratio", "goal", "adds", "CPU", "claims", "CPU", "claim and end", "behind a crowd"],
    rows: contenders.map(({ name, key, suffix }) => {
      const measured = times.get(key)!;
      const all = (of: (each: Measured) => number): number => median(measured.map(of));
      const { ratio, perSecond, cpu } = compare(samples[key]!, samples[names[0]!]!);
      return {
        label: name + suffix,
        ours: true,
        ratio,
        figures: [
          `${Math.round(perSecond)}/s`,
          `${cpu.toFixed(1)} µs`,
          `${Math.round(all(({ claims }) => claims.perSecond))}/s`,
          `${all(({ claims }) => claims.cpu).toFixed(1)} µs`,
          `${all(({ claim }) => claim).toFixed(2)} ms`,
          `${all(({ crowded }) => crowded).toFixed(2)} ms`,
        ],
      };
    }),
  };
}
