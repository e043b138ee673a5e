import { eventsOf } from "../../../console/flash.ts";
import { planOfAccount, planOfErase } from "../../../console/plan.ts";
import type { ErasedAccount } from "../../../stores/store-options.ts";
import { accountGiven, checkRef, confirm, yesOption } from "../../arguments.ts";
import {
  type Command,
  exitCodes,
  type Invocation,
  MissingError,
  type Subcommand,
  UsageError,
} from "../../command.ts";
import { storeOptions, withStore } from "../../open-store.ts";
import { plural } from "../../output.ts";
import { refIn } from "../../refs-in-accounts.ts";

export const erase: Subcommand = {
  name: "erase",
  summary: "delete all data about one booking or listing, or about one account",
  description: `Deletes the snapshot and all events of the booking or listing, with the notifications and attempts of the events, and the
messages about the booking. Fails while the app handles an event of the booking or listing.\n\nWith --account, deletes the snapshots, events and timers of all
records of the account, and the place of its reconciler, but no record that the app is handling: call the command again for
these.`,
  takes: "<ref>",
  arguments: [0, 1],
  examples: [
    "stayhook events erase booking:HX3K9 --store events.db",
    "stayhook events erase --account a17 --store events.db",
  ],
  options: { account: { value: "<id>", help: "erase this account" }, ...yesOption, ...storeOptions },
  run: async (invocation) => {
    const { positionals } = invocation;
    const account = accountGiven(invocation);
    if ((account === undefined) === (positionals.length === 0))
      throw new UsageError("Give <ref>, or --account <id>.");
    return account === undefined ? eraseRecord(invocation) : eraseOf(invocation, account);
  },
};

/** The same command under a name of its own. */
export const topLevelErase: Command = {
  ...erase,
  examples: erase.examples.map((example) => example.replace("events ", "")),
};

async function eraseRecord(invocation: Invocation): Promise<undefined> {
  const { out, positionals } = invocation;
  const given = checkRef(positionals[0] ?? "", "<ref>");
  const { ref, erased } = await withStore(invocation, async (store) => {
    const ref = await refIn(store, given);
    const plan = planOfErase(store, ref);
    // The other notes are in the command's help.
    const { total, question, leftOn = [] } = await plan.describe();
    const kept = [await store.snapshotOf(ref), await store.ledgerOf(ref)];
    if (total === 0 && kept.every((each) => each === undefined))
      throw new MissingError(`The store has no data about ${ref}.`);
    for (const note of leftOn) out.warn(note);
    await confirm(invocation, question);
    return { ref, erased: await plan.run(() => {}) };
  });
  out.result({ erased }, () => `${eventsOf(erased)} and the snapshot of ${ref} deleted`);
}

async function eraseOf(invocation: Invocation, account: string): Promise<number> {
  const { out } = invocation;
  let erased: ErasedAccount = { events: 0, snapshots: 0, processing: 0 };
  await withStore(invocation, async (store) => {
    const plan = planOfAccount(store, account, (counts) => {
      erased = counts;
    });
    const { question, leftOn = [] } = await plan.describe();
    for (const note of leftOn) out.warn(note);
    await confirm(invocation, question);
    return plan.run(() => {});
  });
  const { events, snapshots, processing } = erased;
  const rest = processing > 0 ? `. ${eventsOf(processing)} left, which the app is handling: call again` : "";
  out.result(
    erased,
    () => `${eventsOf(events)} and ${plural(snapshots, "snapshot")} of account ${account} deleted${rest}`,
  );
  return processing > 0 ? exitCodes.failed : exitCodes.done;
}
