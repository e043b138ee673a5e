// A queue that notes what it reads and tells.
import { memoryStore } from "../../src/stores/memory/index.ts";
import { advance, eventOf, HOUR, queueOf, SECOND, type TestWork } from "./support.ts";

export const unauthorized = {
  state: "failed",
  reason: "unavailable",
  error: new Error("401"),
  outage: { everything: true },
} as const;

export type Platform = (
  at: number,
  id: string,
  code: string,
  context: Parameters<TestWork>[1],
) => ReturnType<TestWork>;

/** Makes a queue, and a way to add an event as its handler does. */
export function audited(work: Platform, options: Parameters<typeof queueOf>[0] = {}) {
  const start = performance.now();
  const now = () => performance.now() - start;
  const reads: { id: string; code: string; at: number }[] = [];
  const { store = memoryStore() } = options;
  const it = queueOf({
    store,
    backoff: (n) => [5, 30, 120, 600][n - 1]! * SECOND || HOUR,
    work: ({ eventId, ref }, context) => {
      const code = ref?.split(":")[1] ?? "";
      reads.push({ id: eventId, code, at: now() });
      return work(now(), eventId, code, context);
    },
    ...options,
  });
  it.queue.start();
  const send = async (id: string, code = id, kind = "booking") => {
    const event = eventOf(id, `${kind}:${code}`);
    await store.add(event);
    it.queue.wake(event);
    await advance(0);
  };
  const until = async (at: number) => {
    if (at > now()) await advance(at - now());
  };
  const of = (id: string) => reads.filter((read) => read.id === id).map(({ at }) => at);
  const failedOf = (id: string) =>
    it.observed.flatMap((each) => (each.kind === "failed" && each.eventId === id ? [each.retryIn] : []));
  return { ...it, store, now, reads, send, until, of, failedOf };
}
