// Random schedules of faults of the platform, the store and the processes, in simulated time: docs/how-it-works.md promises
// what follows when they end.
import { expect, test, vi } from "vitest";
import { advance } from "../../queue/support.ts";
import { isSoak, sized } from "../../support/soak.ts";
import { randomOf, seedOf } from "../../system/random.ts";
import { useFakeTime } from "../support.ts";
import { SECOND, seedRandom } from "./app.ts";
import { faults } from "./faults.ts";
import { World } from "./world.ts";

const SCHEDULES = isSoak ? 2000 : sized(15, 60);
const seed = seedOf("schedules of faults");

useFakeTime(new Date(Date.UTC(2026, 4, 1)));

/** Plays faults that begin and end at random. Then all of them end. Returns what is wrong afterwards. */
async function play(
  n: number,
): Promise<{ readonly played: readonly string[]; readonly wrong: readonly string[] }> {
  const random = randomOf(seed + n);
  seedRandom(seed + n);
  const world = new World(random);
  const played: string[] = [];
  const ends: (() => unknown)[] = [];
  await world.begin();
  for (let step = 5 + random.below(25); step > 0; step -= 1) {
    const kind = random.pick(Object.keys(faults));
    played.push(`${Math.round(world.now() / SECOND)} s: ${kind}`);
    const end = await faults[kind]!(world, random);
    if (end) ends.push(end);
    await world.arrive(random.below(4));
    await advance(random.pick([0, 200, 1000, 5000, 20_000, 45_000]));
    if (ends.length > 0 && random.oneIn(3)) ends.splice(random.below(ends.length), 1)[0]!();
  }
  for (const end of ends) end();
  world.recover();
  await advance(world.patience);
  return { played, wrong: await world.wrong() };
}

test("all is handled, and nothing pauses, soon after any faults have ended", async () => {
  for (let n = 0; n < SCHEDULES; n += 1) {
    const { played, wrong } = await play(n);
    vi.clearAllTimers();
    vi.restoreAllMocks();
    expect(wrong, `FUZZ_SEED=${seed + n}\n${played.join("\n")}`).toEqual([]);
  }
});
