import fc from "fast-check";
import { expect, test } from "vitest";
import { type Linked, OrderedSet } from "../../../src/stores/memory/memory-rows.ts";

interface Item extends Linked<Item> {
  readonly value: number;
}

const items = (count: number): Item[] =>
  Array.from({ length: count }, (_, value) => ({
    value,
    set: undefined,
    previous: undefined,
    next: undefined,
  }));
const valuesOf = (set: OrderedSet<Item>): number[] => [...set].map(({ value }) => value);

const step = fc.record({ does: fc.constantFrom("add", "delete"), item: fc.integer({ min: 0, max: 15 }) });

test("a set keeps the order of insertion while items move between two sets", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const all = items(16);
      const [set, other] = [new OrderedSet<Item>(), new OrderedSet<Item>()];
      let plain: number[] = [];
      for (const { does, item: value } of steps) {
        const item = all[value]!;
        plain = plain.filter((each) => each !== value);
        if (does === "add") {
          other.delete(item);
          set.add(item);
          plain.push(value);
        } else {
          set.delete(item);
          other.add(item);
        }
        expect(valuesOf(set)).toEqual(plain);
        expect(set.first?.value).toBe(plain[0]);
        expect(set.size).toBe(plain.length);
      }
    }),
  );
});

test("items may be deleted during an iteration over the set", () => {
  const set = new OrderedSet<Item>();
  for (const item of items(4)) set.add(item);
  const visited: number[] = [];
  for (const item of set) {
    visited.push(item.value);
    if (item.value !== 2) set.delete(item);
  }
  expect(visited).toEqual([0, 1, 2, 3]);
  expect(valuesOf(set)).toEqual([2]);
});
