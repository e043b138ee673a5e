// Group commit: calls that arrive together share a statement.

/** The maximum number of calls that share a statement. */
const GROUP = 200;
/** How long a call waits for the statement before its own, ms. A statement that takes longer probably waits for a lock. */
const SLOW = 50;

/**
 * Calls that arrive while a statement runs share the next one. If a shared statement fails, each call is tried again
 * by itself, so that one bad event fails no other.
 */
export class CallGroup<In, Out> {
  readonly #keyOf: (call: In) => string;
  readonly #run: (calls: readonly In[]) => Promise<readonly Out[]>;
  #waiting: Waiting<In, Out>[] = [];
  /** The group that the waiting calls wait for. */
  #last: Promise<void> | undefined;
  /** The groups whose statement runs. */
  readonly #groups = new Set<Promise<void>>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param keyOf - calls with the same key do not share a statement, because a statement cannot write a row twice */
  constructor(keyOf: (call: In) => string, run: (calls: readonly In[]) => Promise<readonly Out[]>) {
    this.#keyOf = keyOf;
    this.#run = run;
  }

  call(call: In): Promise<Out> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ call, resolve, reject });
      if (this.#last !== undefined) this.#waitFor();
      // Calls of the same turn share the first statement, too.
      else if (this.#waiting.length === 1) queueMicrotask(() => this.#start());
    });
  }

  /** Resolves when no call is waiting or running. */
  async idle(): Promise<void> {
    while (this.#waiting.length > 0 || this.#groups.size > 0) await Promise.all(this.#groups);
  }

  #start(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const group = this.#runGroup(this.#take());
    this.#last = group;
    this.#groups.add(group);
    if (this.#waiting.length > 0) this.#waitFor();
    void group.then(() => {
      this.#groups.delete(group);
      if (this.#last !== group) return;
      this.#last = undefined;
      if (this.#waiting.length > 0) this.#start();
    });
  }

  /** Sets a timer only if a call waits: a timer for each group would cost a third of an `add` of the memory store. */
  #waitFor(): void {
    this.#timer ??= setTimeout(() => this.#start(), SLOW);
  }

  async #runGroup(group: readonly Waiting<In, Out>[]): Promise<void> {
    try {
      const outs = await this.#run(group.map(({ call }) => call));
      for (let index = 0; index < group.length; index += 1) group[index]!.resolve(outs[index]!);
    } catch (error) {
      if (group.length === 1) group[0]!.reject(error);
      else await Promise.all(group.map((each) => this.#runGroup([each])));
    }
  }

  #take(): Waiting<In, Out>[] {
    const keys = new Set<string>();
    const group: Waiting<In, Out>[] = [];
    const later: Waiting<In, Out>[] = [];
    for (const each of this.#waiting) {
      const key = this.#keyOf(each.call);
      if (group.length < GROUP && !keys.has(key)) {
        keys.add(key);
        group.push(each);
      } else {
        later.push(each);
      }
    }
    this.#waiting = later;
    return group;
  }
}

interface Waiting<In, Out> {
  readonly call: In;
  resolve(out: Out): void;
  reject(error: unknown): void;
}
