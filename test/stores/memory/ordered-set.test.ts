import fc from "fast-check";
import { expect, test } from "vitest";
import { OrderedSet } from "../../../src/stores/memory/ordered-set.ts";

const step = fc.record({ does: fc.constantFrom("add", "delete"), item: fc.integer({ min: 0, max: 15 }) });

test("the set keeps the order in which items came last", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const set = new OrderedSet<number>();
      let plain: number[] = [];
      for (const each of steps) {
        plain = plain.filter((other) => other !== each.item);
        if (each.does === "add") {
          set.add(each.item);
          plain.push(each.item);
        } else set.delete(each.item);
        expect([...set]).toEqual(plain);
        expect(set.first).toBe(plain[0]);
        expect(set.size).toBe(plain.length);
      }
    }),
  );
});

test("items of the set may be deleted while they are visited", () => {
  const set = new OrderedSet<number>();
  for (const each of [1, 2, 3, 4]) set.add(each);
  const visited: number[] = [];
  for (const each of set) {
    visited.push(each);
    if (each !== 3) set.delete(each);
  }
  expect(visited).toEqual([1, 2, 3, 4]);
  expect([...set]).toEqual([3]);
});
