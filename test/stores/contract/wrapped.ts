import type { EventFilter, EventStore, StoredEvent } from "../../../src/stores/event-store.ts";
import { memoryStore } from "../../../src/stores/memory/index.ts";

/** Makes the methods of a store that are replaced. */
export type Wrap = (store: EventStore<unknown>) => Partial<EventStore<unknown>>;

/** A memory store of which some methods are replaced. */
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

/** A store with one mistake, and a case that must not let it pass. */
export type Mistakes = Record<string, { readonly wrap: Wrap; readonly fails: string }>;

export const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** All events that match, the newest first. */
export const all = (store: EventStore<unknown>, filter: EventFilter = {}): Promise<StoredEvent[]> =>
  store.list({ ...filter, limit: 10_000 });
