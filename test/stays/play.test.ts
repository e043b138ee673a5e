// A few random plays. test:servers has forty.
import { memoryStore } from "stayhook";
import { expect, test } from "vitest";
import { play } from "./play.ts";

const first = Number(process.env.PLAY_SEED ?? Math.floor(Math.random() * 1e6));
console.log(`plays of stays: PLAY_SEED=${first}`);

test.each([
  ["one move after the other", {}],
  ["several moves at once, and processes that end", { lazy: 0.3, kill: 0.05 }],
])(
  "nights, doors, mails and cleanings are right: %s",
  async (_, options) => {
    const store = memoryStore();
    const { faults } = await play({ seed: first, open: () => store, moves: 25, ...options });
    expect(faults).toEqual([]);
  },
  120_000,
);
