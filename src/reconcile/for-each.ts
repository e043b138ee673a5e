/**
 * Runs `task` for each item, `size` at a time, in the order of the items.
 *
 * @throws the first error of the items or of a task, once all running tasks have ended
 */
export async function forEach<T>(
  items: AsyncIterable<T> | Iterable<T>,
  size: number,
  task: (item: T) => Promise<void>,
): Promise<void> {
  const queue = (async function* () {
    yield* items;
  })();
  // A task that throws ends its worker's loop, and this ends the queue for all workers.
  const workers = Array.from({ length: size }, async () => {
    for await (const item of queue) await task(item);
  });
  const failed = (await Promise.allSettled(workers)).find((worker) => worker.status === "rejected");
  if (failed) throw failed.reason;
}
