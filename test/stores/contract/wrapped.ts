import type { EventStore } from "../../../src/stores/event-store.ts";
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

/** Makes a handle of a store that others use, too, with a `close` of its own. */
export function handleOn(store: EventStore<unknown>): EventStore<unknown> {
  const subscribed: (() => void)[] = [];
  let isClosed = false;
  return new Proxy(store, {
    get(target, name) {
      if (name === "close" || name === Symbol.asyncDispose) {
        return async () => {
          isClosed = true;
          for (const end of subscribed.splice(0)) end();
        };
      }
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        if (isClosed) throw new Error("the handle is closed");
        const result: unknown = Reflect.apply(value, target, args);
        if (name === "subscribe") subscribed.push(result as () => void);
        return result;
      };
    },
  });
}
