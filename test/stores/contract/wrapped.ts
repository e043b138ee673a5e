import type { EventFilter, EventStore, StoredEvent } from "../../../src/stores/event-store.ts";
import { memoryStore } from "../../../src/stores/memory/index.ts";

/** Returns replacements for methods of a store. */
export type Wrap = (store: EventStore<unknown>) => Partial<EventStore<unknown>>;

/** Makes a memory store with some methods replaced. */
export function wrapped(wrap: Wrap): EventStore<unknown> {
  const store: EventStore<unknown> = memoryStore();
  const changed = wrap(store);
  return new Proxy(store, {
    get(target, name) {
      if (Object.hasOwn(changed, name)) return changed[name as keyof typeof changed];
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** Stores with one mistake each, and the case that must fail for it. */
export type Mistakes = Record<string, { readonly wrap: Wrap; readonly fails: string }>;

export const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Returns all events that match, newest first. */
export const all = (store: EventStore<unknown>, filter: EventFilter = {}): Promise<StoredEvent[]> =>
  store.list({ ...filter, limit: 10_000 });
