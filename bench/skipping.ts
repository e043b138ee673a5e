// Measures a claim with `except` or `only`, with many due records in front of the first one that it takes.
import { randomUUID } from "node:crypto";
import type { ClaimOptions, EventStore } from "stayhook/store";
import { openStore, type StoreName, storeNames } from "./open-store.ts";
import type { Section } from "./report.ts";
import { median } from "./rounds.ts";

/** How many records of an account that is out are due before the first other one. */
const SKIPPED = [0, 2_000, 50_000] as const;
/** How many beginnings `except` has. */
const BEGINNINGS = [0, 1, 100, 1_000] as const;
/** The number of adds at once, and of claims without a measurement, and with one. */
const [GROUP, WARM, TIMES] = [500, 3, 21];

export async function skipping(
  skipped: readonly number[] = SKIPPED,
  of?: readonly string[],
): Promise<Section> {
  const rows: Section["rows"][number][] = [];
  for (const name of storeNames.filter((each) => !of || of.includes(each)))
    rows.push(...(await rowsOf(name, skipped)));
  return {
    name: "skipping",
    title: "Claims that skip records",
    text:
      "The median time of a claim of one event, while records of an account that is out are due before it. `except` has 0, " +
      "1, 100 or 1,000 beginnings, a new one in each claim, so that no claim can begin where the last one ended; `the same " +
      "1,000` has no new one. With 0, the claim takes the first of the due records. `only` has one beginning: that of the last " +
      "due record. The ratio compares 1,000 beginnings with one.",
    columns: [
      "ratio",
      "goal",
      ...BEGINNINGS.map((count) => `except ${count.toLocaleString("en")}`),
      "the same 1,000",
      "only 1",
    ],
    rows,
  };
}

async function rowsOf(name: StoreName, skipped: readonly number[]): Promise<Section["rows"]> {
  const rows: Section["rows"][number][] = [];
  const { store, close } = await openStore(name);
  try {
    let filled = 0;
    for (const count of skipped) {
      await fill(store, count - filled);
      filled = count;
      const times: number[] = [];
      for (const beginnings of BEGINNINGS)
        times.push(await claim(store, (time) => ({ except: exceptOf(beginnings, time) })));
      times.push(await claim(store, () => ({ except: exceptOf(1000, 0) })));
      times.push(await claim(store, () => ({ only: ["other/"] })));
      rows.push({
        label: `${name}, ${count.toLocaleString("en")} records`,
        ours: true,
        ratio: times[3]! / times[1]!,
        figures: times.map((ms) => `${ms.toFixed(2)} ms`),
      });
    }
  } finally {
    await close();
  }
  return rows;
}

function exceptOf(count: number, time: number): string[] | undefined {
  if (count === 0) return undefined;
  // Each of these covers all records that are out.
  const out = "out/booking:".slice(0, 4 + (Math.abs(time) % 8));
  return [out, ...Array.from({ length: count - 1 }, (_, n) => (n === 0 ? `new-${time}/` : `account-${n}/`))];
}

async function claim(
  store: EventStore<never>,
  options: (time: number) => Partial<ClaimOptions>,
): Promise<number> {
  const took: number[] = [];
  for (let time = -WARM; time < TIMES; time += 1) {
    await store.add(newEvent("other"));
    const start = performance.now();
    const [claimed] = await store.claim({ limit: 1, leaseDuration: 60_000, ...options(time) });
    if (time >= 0) took.push(performance.now() - start);
    const isOther = claimed!.ref!.startsWith("other/");
    const done = { state: "done", type: "booking.Confirmed", entry: { duration: 20 } } as const;
    await store.settle(claimed!, isOther ? done : { state: "released" });
    if (!isOther) await store.discard({ account: "other" });
  }
  return median(took);
}

async function fill(store: EventStore<never>, count: number): Promise<void> {
  for (let added = 0; added < count; added += GROUP)
    await Promise.all(Array.from({ length: GROUP }, () => store.add(newEvent("out"))));
}

function newEvent(account: string) {
  const id = randomUUID();
  const event = { source: "webhook", topic: null, timestamp: "2026-03-01T10:00:00.000Z" } as const;
  return { ...event, eventId: `${account}/${id}`, ref: `${account}/booking:${id}`, notification: "{}" };
}
