/** The longest wait that setTimeout takes; beyond it, it fires at once. */
export const MAX_TIMER = 2_147_483_647;

type Timer = ReturnType<typeof setTimeout>;

/** A timer that does not keep a Node process alive. Elsewhere there is nothing to let go of. */
export function idleTimer(callback: () => void, ms: number): Timer {
  const timer = setTimeout(callback, Math.min(Math.max(ms, 0), MAX_TIMER));
  (timer as { unref?: () => void }).unref?.();
  return timer;
}

/** One wake-up at a time: setting it again replaces it. */
export class Alarm {
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

/** Waits for the first of `promises`, `ms` at most. Rejects only if one of them does. */
export async function atMost(ms: number, promises: readonly Promise<unknown>[] = []): Promise<void> {
  let timer: Timer | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.min(ms, MAX_TIMER));
  });
  try {
    await Promise.race([over, ...promises]);
  } finally {
    clearTimeout(timer);
  }
}
