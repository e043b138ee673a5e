import { AsyncLocalStorage } from "node:async_hooks";
import { expect, onTestFinished, test, vi } from "vitest";
import { CallGroup } from "../../src/stores/call-group.ts";
import { gate } from "../queue/support.ts";

const als = new AsyncLocalStorage<number>();

/** Makes a group that keeps the calls of each statement, and the async context in which the statement ran. */
function groupOf(run: (calls: readonly number[]) => Promise<void> = async () => {}) {
  const statements: { calls: readonly number[]; context: number | undefined }[] = [];
  const group = new CallGroup<number, number>(
    (call) => String(call),
    async (calls) => {
      statements.push({ calls, context: als.getStore() });
      await run(calls);
      return calls;
    },
  );
  return { group, statements, call: (n: number) => als.run(n, () => group.call(n)) };
}

test("a statement runs in the async context of a call that shares it, and of no earlier one", async () => {
  const gates = [gate(), gate()];
  const { call, statements } = groupOf((calls) => gates[calls.includes(1) ? 0 : 1]!.opened);
  const calls = [call(1)];
  await Promise.resolve();
  calls.push(call(2), call(3));
  gates[0]!.open();
  await calls[0];
  gates[1]!.open();
  await Promise.all(calls);
  expect(statements).toEqual([
    { calls: [1], context: 1 },
    { calls: [2, 3], context: 2 },
  ]);
});

test("a call that its group has no room for runs in no other call's context", async () => {
  const { call, statements } = groupOf();
  await Promise.all([call(1), call(1)]);
  expect(statements).toEqual([
    { calls: [1], context: 1 },
    { calls: [1], context: undefined },
  ]);
});

test("a slow statement holds up the next one for a moment only", async () => {
  const { open, opened } = gate();
  const { call, group, statements } = groupOf((calls) => (calls.includes(1) ? opened : Promise.resolve()));
  const slow = call(1);
  await Promise.resolve();
  expect(await Promise.all([call(2), call(3)])).toEqual([2, 3]);
  expect(statements.map(({ calls }) => calls)).toEqual([[1], [2, 3]]);
  open();
  await slow;
  await group.idle();
});

test("with all timers faked, calls end, and `idle` resolves", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "setImmediate", "queueMicrotask"] });
  onTestFinished(() => void vi.useRealTimers());
  const { call, group } = groupOf();
  const calls = [call(1), call(2)];
  await group.idle();
  expect(await Promise.all(calls)).toEqual([1, 2]);
});
