import { expect, it } from "vitest";
import { createRecent } from "../../src/sandbox/recent.ts";

it("keeps the newest, in their order", () => {
  const recent = createRecent<number>(3);
  const seen: number[][] = [];
  for (let number = 1; number <= 8; number++) {
    recent.add(number);
    seen.push(recent.list());
  }
  expect(seen).toEqual([[1], [1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 7], [6, 7, 8]]);
});
