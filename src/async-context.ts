// Async contexts, such as those of `AsyncLocalStorage`. Timers, and work that outlives its caller, must not run in the
// context of a request: users keep the request's user, trace and error report there.

import { shared } from "./copies.ts";

/** Runs a function in an async context, and returns its result. */
export type RunInContext = <T>(run: () => T) => T;

interface Storage {
  snapshot?(): RunInContext;
}

/** `undefined` in browsers, and in Workers without `nodejs_compat`. */
const storage: Storage | undefined =
  globalThis.process?.getBuiltinModule?.("node:async_hooks")?.AsyncLocalStorage ??
  (globalThis as { readonly AsyncLocalStorage?: Storage }).AsyncLocalStorage;

/** Returns a function that runs others in the caller's async context. It is `undefined` if the runtime has no such contexts. */
export function callersContext(): RunInContext | undefined {
  return storage?.snapshot?.();
}

// All copies of this package take the context of the first: a request may be the first to load another copy.
const { run: runAsAtLoad } = shared("context", () => ({ run: callersContext() }));

/** Runs work that outlives its caller in the async context in which this package was loaded. */
export function detached<T>(run: () => T): T {
  return runAsAtLoad ? runAsAtLoad(run) : run();
}
