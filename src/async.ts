// Helpers for promises and timers.

import { detached } from "./async-context.ts";

/** The longest wait that `setTimeout` supports, ms. A timer with a longer wait fires at once. */
export const MAX_TIMER = 2 ** 31 - 1;

type Timer = ReturnType<typeof setTimeout>;

/**
 * Starts a timer that does not keep a Node process alive. Some runtimes, such as browsers, have no `unref`. The callback
 * runs detached: who sets a timer may be any request.
 */
export function idleTimer(callback: () => void, ms: number): Timer {
  const timer = setTimeout(() => detached(callback), Math.min(Math.max(ms, 0), MAX_TIMER));
  (timer as { unref?: () => void }).unref?.();
  return timer;
}

/**
 * Node's own timers, for what must not wait for a test that fakes the global ones, maybe before it imports this package.
 * `setImmediate` is `undefined` in runtimes that do not have it.
 */
const {
  setTimeout: realTimeout,
  setImmediate,
}: Pick<typeof globalThis, "setTimeout"> & {
  readonly setImmediate?: typeof globalThis.setImmediate;
} = globalThis.process?.getBuiltinModule?.("node:timers") ?? globalThis;

/** Calls back when the event loop has read the sockets. Without `setImmediate`, calls back at the end of this turn. */
export function inNextTurn(callback: () => void): void {
  if (setImmediate) setImmediate(callback);
  else void Promise.resolve().then(callback);
}

/** Resolves after `ms` of real time, also while a test fakes timers. Use it for waits that are no part of a schedule. */
export function realPause(ms: number): Promise<void> {
  return new Promise((resolve) => void realTimeout(resolve, ms));
}

/** A timer that can be set again: the new time replaces the old time. Does not keep a Node process alive. */
export class ResettableTimer {
  readonly #ring: () => void;
  #timer: Timer | undefined;

  constructor(ring: () => void) {
    this.#ring = ring;
  }

  set(ms: number): void {
    this.clear();
    this.#timer = idleTimer(() => {
      this.#timer = undefined;
      this.#ring();
    }, ms);
  }

  get isSet(): boolean {
    return this.#timer !== undefined;
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

/** Whether a value can be awaited: a promise, or a lazy query of an ORM, which runs only when something awaits it. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { readonly then?: unknown } | null | undefined)?.then === "function";
}

/** Settles like `promise`, or resolves to `undefined` after `ms`. Then ignores how `promise` settles. */
export async function withTimeout<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: Timer | undefined;
  const over = new Promise<undefined>((resolve) => {
    // Node warns of a negative time.
    timer = setTimeout(() => resolve(undefined), Math.min(Math.max(ms, 0), MAX_TIMER));
  });
  try {
    return await Promise.race([over, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves after `ms`, or when `signal` aborts. With `hold`, the wait keeps the process alive. */
export function pause(ms: number, signal: AbortSignal | undefined, hold = true): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = hold ? setTimeout(end, Math.min(ms, MAX_TIMER)) : idleTimer(end, ms);
    signal?.addEventListener("abort", end);
  });
}

/** Settles like `promise`. If `signal` aborts first, rejects with the signal's reason and ignores `promise`. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) {
    promise.catch(() => {});
    return Promise.reject(signal.reason);
  }
  return new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    signal.addEventListener("abort", abort);
    const end = (): void => signal.removeEventListener("abort", abort);
    promise.then(resolve, reject).then(end);
  });
}

/** The longest time that a wrapper may take to call `run`, ms. */
const WRAPPER_PATIENCE = 1000;

/**
 * Calls `wrapper`, the user's function, which must call `run`. If `wrapper` throws or does not call `run` in time,
 * calls `run` directly. `run` runs only once.
 *
 * @param onFailure - gets the errors of `wrapper`, but not the errors of `run`
 * @returns the result of `run`
 */
export async function runWrapped<T>(
  wrapper: (run: () => Promise<T>) => unknown,
  run: () => Promise<T>,
  onFailure: (error: unknown) => void,
): Promise<T> {
  const began = Promise.withResolvers<void>();
  let running: Promise<T> | undefined;
  const runOnce = (): Promise<T> => {
    running ??= run();
    began.resolve();
    return running;
  };
  const wrapped = (async () => wrapper(runOnce))().catch(async (error) => {
    const own = await running?.then(
      () => undefined,
      (thrown) => ({ thrown }),
    );
    // Ignore an error of `run` that the wrapper rethrows.
    if (own?.thrown !== error) onFailure(error);
  });
  if (!running) await withTimeout(WRAPPER_PATIENCE, Promise.race([began.promise, wrapped]));
  if (!running)
    onFailure(new Error(`the telemetry function did not call \`run\` within ${WRAPPER_PATIENCE} ms`));
  return runOnce();
}

/** A limit on concurrent work. */
export interface Slots {
  run<T>(work: () => Promise<T>): Promise<T>;
}

/** Runs at most `max` functions at once, in the order of the calls. */
export function createSlots(max: number): Slots {
  const waiting: (() => void)[] = [];
  let free = max;
  return {
    async run(work) {
      if (free > 0) free--;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next) next();
        else free++;
      }
    },
  };
}

/**
 * Runs `task` for each item, in the order of the items. At most `size` tasks run at the same time.
 *
 * @throws the error of `items` or of a task, after all running tasks have ended
 */
export async function forEach<T>(
  items: AsyncIterable<T> | Iterable<T>,
  size: number,
  task: (item: T) => Promise<void>,
): Promise<void> {
  const queue = (async function* () {
    yield* items;
  })();
  // When a task throws, the `for await` loop of its worker closes the shared queue. Then all other workers stop, too.
  const workers = Array.from({ length: size }, async () => {
    for await (const item of queue) await task(item);
  });
  const failed = (await Promise.allSettled(workers)).find((worker) => worker.status === "rejected");
  if (failed) throw failed.reason;
}
