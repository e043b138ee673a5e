// Does a store's whole job with an event of its own, for `stayhook doctor`.

import { erase } from "../memory/record-rules.ts";
import { type Addition, additionOf, type Settlement, settlementOf } from "../outcomes.ts";
import type { Timed } from "../store-clock.ts";
import type { AddAnswer, ClaimCall, ClaimResult, Settled } from "../store-steps.ts";
import { assertDone, trialOf } from "../store-trial.ts";
import type { SqlSteps } from "./driver.ts";
import { setMeta } from "./sql-changes.ts";
import { withRecords } from "./sql-loaded.ts";
import { RollBack } from "./sql-queue.ts";
import type { Operation } from "./sql-records.ts";

/** The steps of the hot path, as the store runs them. */
export interface HotSteps {
  add(additions: readonly Addition[]): SqlSteps<readonly AddAnswer[]>;
  claim(call: ClaimCall): SqlSteps<Timed<ClaimResult>>;
  settle(settlements: readonly Settlement<never>[]): SqlSteps<readonly Settled[]>;
}

/** @param run - runs the steps in a transaction */
export async function tryAndRollBack(
  run: (steps: (operation: Operation) => SqlSteps<void>) => Promise<void>,
  hotOf: (operation: Operation) => HotSteps,
): Promise<void> {
  let isDone = false;
  const steps = function* (operation: Operation): SqlSteps<void> {
    isDone = false;
    yield* tryAll(operation, hotOf(operation));
    isDone = true;
    throw new RollBack();
  };
  try {
    await run(steps);
  } catch (error) {
    if (!isDone) throw error;
  }
}

/**
 * Adds, claims, settles and removes an event, and sets and removes a meta value.
 *
 * @throws StayhookError if a step did nothing
 */
function* tryAll(operation: Operation, hot: HotSteps): SqlSteps<void> {
  const { name, ref, event, outcome, call } = trialOf();
  assertDone("added", (yield* hot.add([additionOf(event, {}, call.token)]))[0] === "added");
  const [claimed] = (yield* hot.claim(call)).result.claimed;
  assertDone("claimed", claimed?.claim.eventId === name);
  const settled = yield* hot.settle([settlementOf(claimed!.claim, claimed!.row, outcome)]);
  assertDone("settled", settled[0]?.held === true);
  const scope = { records: [{ ref, eventId: name }], ended: "all", failing: "" } as const;
  const removed = yield* withRecords(operation, scope, (tables) => erase(tables, [ref]));
  assertDone("removed", removed === 1);
  const metas = [
    [undefined, "1"],
    ["1", "2"],
    ["2", undefined],
  ] as const;
  for (const [expected, value] of metas) assertDone("kept", yield* setMeta(operation, name, value, expected));
}
