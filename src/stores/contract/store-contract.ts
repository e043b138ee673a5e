import type { EventStore } from "../event-store.ts";
import { adding, replacing, scheduling } from "./adding.ts";
import { discarding, erasing, replaying } from "./changing.ts";
import { claiming, ordering } from "./claiming.ts";
import { firings } from "./firings.ts";
import { Bench, type Cases } from "./harness.ts";
import { metas, pruning, restoring, snapshots } from "./keeping.ts";
import { leases, nextDue, outages } from "./leases.ts";
import { ledgers, things } from "./ledgers.ts";
import { closing, restarting, sharing, transactions, waking } from "./processes.ts";
import { filtering, reading } from "./reading.ts";
import { excepting, picking } from "./restricting.ts";
import { histories, removing, settling } from "./settling.ts";

/** A test case of the contract. */
export interface StoreContractCase {
  /** The topic and the rule, such as `claim: an empty store has nothing to claim`. Each name is unique. */
  readonly name: string;
  /** The part of the contract that the case belongs to. */
  readonly topic: string;
  /** Runs the case. Rejects if the case fails. The error says what the case expected. */
  run(): Promise<void>;
}

/** Options of {@link storeContract}. */
export interface StoreContractOptions<S> {
  /**
   * Restarts a store: closes `store`, and returns a new store on the same data. With this option, the contract
   * includes the cases for durable stores.
   */
  readonly reopen?: ((store: S) => S | Promise<S>) | undefined;
  /**
   * Returns a second store on the data of `store`, as another process would open it. With this option, the contract
   * includes the cases for shared stores.
   */
  readonly another?: ((store: S) => S | Promise<S>) | undefined;
  /**
   * The unit of all leases and waits in the cases, ms. Default 50. The cases run in real time. Raise `unit` if a call
   * of the store may take longer than one unit.
   */
  readonly unit?: number | undefined;
}

/**
 * Returns the test cases that every `EventStore` must pass. Any test runner can run them. Each case creates and
 * closes its own store.
 *
 * @param createStore - makes a new, empty store
 *
 * @example
 * ```ts
 * import { storeContract } from "stayhook/store/contract";
 * import { test } from "node:test"; // or use `test` of Vitest or Jest
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
  dueIn: scheduling,
  replace: replacing,
  timer: firings,
  claim: claiming,
  order: ordering,
  except: excepting,
  only: picking,
  lease: leases,
  settle: settling,
  remove: removing,
  history: histories,
  outage: outages,
  nextDue,
  prune: pruning,
  read: reading,
  filter: filtering,
  replay: replaying,
  discard: discarding,
  erase: erasing,
  snapshot: snapshots,
  ledger: ledgers,
  thing: things,
  meta: metas,
  restore: restoring,
  wake: waking,
  writes: transactions,
  close: closing,
};

interface Opened<S> {
  readonly store: S;
  /** Registers `another` to be closed at the end of the case, and returns it. */
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
    await run(new Bench(store, unit), { store, keep });
  } catch (error) {
    // A failing store may also fail to close. The error of the case says more, so throw that error.
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
