import fc from "fast-check";
import { expect, test } from "vitest";
import { IndexedHeap } from "../../../src/stores/memory/claim-order.ts";

const item = fc.integer({ min: 0, max: 15 });
const step = fc.oneof(
  fc.record({ does: fc.constant("set" as const), item, time: fc.integer({ min: 0, max: 9 }) }),
  fc.record({ does: fc.constant("delete" as const), item }),
);

test("the first item of the heap is always the smallest item", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const heap = new IndexedHeap<number>();
      const plain = new Map<number, number>();
      for (const each of steps) {
        if (each.does === "set") {
          heap.set(each.item, each.time, each.item);
          plain.set(each.item, each.time);
        } else {
          heap.delete(each.item);
          plain.delete(each.item);
        }
        expectSame(heap, plain);
      }
      for (; plain.size > 0; plain.delete(heap.first!), heap.delete(heap.first!)) expectSame(heap, plain);
      expectSame(heap, plain);
    }),
  );
});

function expectSame(heap: IndexedHeap<number>, plain: ReadonlyMap<number, number>): void {
  const [first] = [...plain].sort(([a, at], [b, bt]) => at - bt || a - b);
  expect(heap.size).toBe(plain.size);
  expect(heap.first).toBe(first?.[0]);
  expect(heap.firstTime).toBe(first?.[1] ?? Number.POSITIVE_INFINITY);
}
