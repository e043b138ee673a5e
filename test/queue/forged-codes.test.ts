// What forged codes cost: when they are parked, and how many reads they take.
import { describe, expect, test } from "vitest";
import { audited } from "./played.support.ts";
import { advance, HOUR, refused, SECOND, sleep, useFakeTime } from "./support.ts";

useFakeTime(new Date(Date.UTC(2026, 4, 1)));

/** Sends forged codes, 100 a second. @returns the reads of each second */
async function forged(count: number) {
  const app = audited(async () => {
    await sleep(20);
    return refused;
  });
  for (let n = 0; n < count; n += 1) {
    await app.send(`F${n}`);
    await advance(10);
  }
  await advance(HOUR);
  const perSecond = new Map<number, number>();
  for (const { at } of app.reads) {
    const second = Math.floor(at / SECOND);
    perSecond.set(second, (perSecond.get(second) ?? 0) + 1);
  }
  return { ...app, perSecond };
}

describe("forged codes", () => {
  test("are parked within an hour", async () => {
    const { store } = await forged(30);
    expect(await store.counts()).toMatchObject({ parked: 30, retrying: 0 });
  });

  test("cost at most 80 reads a second, also when no new ones have come for five minutes", async () => {
    const { perSecond } = await forged(400);
    expect(Math.max(...perSecond.values())).toBeLessThanOrEqual(80);
  });
});
