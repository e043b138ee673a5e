// Group commit: calls that arrive together share a statement.

import { detached } from "../async-context.ts";

/** The maximum number of calls that share a statement. */
export const GROUP = 200;
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

  /** @param keyOf - calls with the same key do not share a statement, because a statement cannot write a row twice */
  constructor(keyOf: (call: In) => string, run: (calls: readonly In[]) => Promise<readonly Out[]>) {
    this.#keyOf = keyOf;
    this.#run = run;
  }

  call(call: In): Promise<Out> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ call, resolve, reject });
      // The first call of a group starts it, so that its statement runs in the async context of one of its calls.
      if (this.#waiting.length === 1) this.#startAfter(this.#last);
    });
  }

  /** Resolves when no call is waiting or running. */
  async idle(): Promise<void> {
    while (this.#waiting.length > 0 || this.#groups.size > 0) await Promise.all(this.#groups);
  }

  /** Starts a group for the waiting calls when the group before has ended, or is slow. */
  #startAfter(before: Promise<void> | undefined): void {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isStarted = false;
    const start = (): void => {
      if (isStarted) return;
      isStarted = true;
      clearTimeout(timer);
      this.#start();
    };
    // Set a timer only behind another group: a timer for each group would cost a third of an `add` of the memory store.
    if (before) timer = setTimeout(start, SLOW);
    // Calls of the same turn share the first statement, too. Tests fake `queueMicrotask`, but cannot fake a promise.
    void (before ?? Promise.resolve()).then(start);
  }

  #start(): void {
    const group = this.#runGroup(this.#take());
    this.#last = group;
    this.#groups.add(group);
    void group.then(() => {
      this.#groups.delete(group);
      if (this.#last === group) this.#last = undefined;
    });
    // The call that begins the next group came in another async context.
    if (this.#waiting.length > 0) detached(() => this.#startAfter(group));
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
