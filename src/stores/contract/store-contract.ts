import type { EventStore } from "../event-store.ts";
import { adding, delaying } from "./adding.ts";
import { claiming, ordering } from "./claiming.ts";
import { type Bench, type Cases, createBench } from "./harness.ts";
import { leases, nextDue, outages } from "./leases.ts";
import { closing, restarting, sharing, transactions, waking } from "./processes.ts";
import { filtering, reading } from "./reading.ts";
import { discarding, erasing, replaying } from "./replaying.ts";
import { metas, newestReceived, pruning, recording } from "./retention.ts";
import { histories, settling } from "./settling.ts";

/** A test case of the contract. */
export interface StoreContractCase {
  /** `topic: what holds`; no two are the same. */
  readonly name: string;
  /** The part of the contract that the case belongs to. */
  readonly topic: string;
  /** Rejects with an error that says what was expected and what came. */
  run(): Promise<void>;
}

/** Options of {@link storeContract}. */
export interface StoreContractOptions<S> {
  /**
   * A restart: closes `store` and resolves to another one on the same data. Given it, the contract has the
   * cases that a durable store must pass.
   */
  readonly reopen?: ((store: S) => S | Promise<S>) | undefined;
  /**
   * Resolves to another process's handle on the data of `store`. Given it, the contract has the cases that a
   * shared store must pass.
   */
  readonly another?: ((store: S) => S | Promise<S>) | undefined;
  /**
   * ms. The cases run in real time, with leases and waits of a few of these. Raise it for a store that may take
   * longer than this to answer. Default 50.
   */
  readonly unit?: number | undefined;
}

/**
 * Returns the test cases that every `EventStore` must pass, for any test runner. Each case makes a store of its own, and
 * closes it.
 *
 * @param createStore - makes a new, empty store
 *
 * @example
 * ```ts
 * import { storeContract } from "stayhook/store";
 * import { test } from "node:test"; // or of vitest, or Jest's
 *
 * for (const { name, run } of storeContract(() => myStore())) test(name, run);
 * ```
 */
export function storeContract<S extends EventStore<unknown>>(
  createStore: () => S | Promise<S>,
  options: StoreContractOptions<S> = {},
): readonly StoreContractCase[] {
  const { reopen, another, unit = 50 } = options;
  const cases: StoreContractCase[] = [];

  function topic(
    title: string,
    named: Readonly<Record<string, (bench: Bench, opened: Opened<S>) => Promise<void>>>,
  ) {
    for (const [what, run] of Object.entries(named)) {
      cases.push({ name: `${title}: ${what}`, topic: title, run: () => withStore(createStore, unit, run) });
    }
  }

  for (const [title, named] of Object.entries(topics)) topic(title, named);
  if (reopen !== undefined) {
    topic(
      "restart",
      mapValues(
        restarting,
        (run) =>
          (bench, { store, keep }) =>
            run(bench, async () => keep(await reopen(store))),
      ),
    );
  }
  if (another !== undefined) {
    topic(
      "sharing",
      mapValues(
        sharing,
        (run) =>
          async (bench, { store, keep }) =>
            run(bench, keep(await another(store))),
      ),
    );
  }
  return cases;
}

const topics: Readonly<Record<string, Cases>> = {
  add: adding,
  dueIn: delaying,
  claim: claiming,
  order: ordering,
  lease: leases,
  settle: settling,
  history: histories,
  outage: outages,
  nextDue,
  prune: pruning,
  read: reading,
  filter: filtering,
  newestReceived,
  replay: replaying,
  discard: discarding,
  erase: erasing,
  record: recording,
  meta: metas,
  wake: waking,
  writes: transactions,
  close: closing,
};

interface Opened<S> {
  readonly store: S;
  /** Closes this store too at the end of the case. */
  keep(another: S): S;
}

async function withStore<S extends EventStore<unknown>>(
  createStore: () => S | Promise<S>,
  unit: number,
  run: (bench: Bench, opened: Opened<S>) => Promise<void>,
): Promise<void> {
  const store = await createStore();
  const opened = [store];
  const keep = (another: S): S => {
    opened.push(another);
    return another;
  };
  try {
    await run(createBench(store, unit), { store, keep });
  } catch (error) {
    // A store that fails may fail to close, too; the case's own error says more.
    await Promise.allSettled(opened.map((each) => each.close()));
    throw error;
  }
  await Promise.all(opened.map((each) => each.close()));
}

function mapValues<T, U>(
  object: Readonly<Record<string, T>>,
  map: (value: T) => U,
): Readonly<Record<string, U>> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value)]));
}
