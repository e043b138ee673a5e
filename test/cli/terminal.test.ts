import { describe, expect, test } from "vitest";
import { spawned } from "./process.ts";

describe("the help fits the terminal", () => {
  test.each([48, 64, 120])("%i columns wide", async (columns) => {
    for (const args of [["--help"], ["sandbox", "--help"], ["events", "replay", "--help"]]) {
      const running = spawned(args, { columns });
      expect(await running.ended).toBe(0);
      const lines = running.output().split("\n");
      for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(columns);
      expect(Math.max(...lines.map(({ length }) => length))).toBeGreaterThan(columns - 16);
    }
  });
});
