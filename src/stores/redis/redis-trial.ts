// Does the whole job with an event of its own, for `stayhook doctor`.

import { eventStates } from "../event-states.ts";
import { additionOf, settlementOf } from "../outcomes.ts";
import { toText } from "../sql/sql-rows.ts";
import { assertDone, trialOf } from "../store-trial.ts";
import type { Connection } from "./redis-connection.ts";
import {
  type Num,
  type RowReply,
  recordName,
  toAdd,
  toClaimed,
  toRestriction,
  toSettle,
} from "./redis-rows.ts";
import type { ScriptName } from "./redis-scripts.ts";

/**
 * Adds, claims, settles and removes an event, under a prefix of its own, which no process reads.
 *
 * @throws StayhookError if a script fails or did nothing
 */
export async function tryOut(connection: Connection): Promise<void> {
  const { name, ref, event, outcome, call } = trialOf();
  const run = (script: ScriptName, input: object) =>
    connection.run(script, ["", "", JSON.stringify(input)], undefined, `:${name}`);
  const keys = { id: toText(name), record: recordName({ ref, eventId: name }), states: eventStates };
  const end = () => run("endTrial", keys);
  // Without the right to delete, fail before the first write.
  await end();
  try {
    await run("start", { migrate: true });
    const added = await run("add", [toAdd(additionOf(event, {}, call.token))]);
    assertDone("added", (added as readonly string[])[0] === "added");
    const place = { limit: 1, duration: call.leaseDuration, worker: "" };
    const restriction = toRestriction(call);
    const claims = await run("claim", { ...place, name: call.token, restriction });
    const [, rows] = claims as readonly [Num, readonly RowReply[]];
    assertDone("claimed", rows.length === 1);
    const { claim, row } = toClaimed(rows[0]!);
    const settled = await run("settle", [toSettle(settlementOf(claim, row, outcome))]);
    assertDone("settled", Number((settled as [Num, Num][])[0]?.[0]) === 1);
    assertDone("removed", Number(await run("prune", { state: "done", age: 0, limit: 1 })) === 1);
  } finally {
    await end();
  }
}
