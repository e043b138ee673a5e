import { countEvents } from "../../../console/event-pages.ts";
import { eraseAccount } from "../../../webhooks/erase-account.ts";
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
import { eventsOf } from "./columns.ts";

export const erase: Subcommand = {
  name: "erase",
  summary: "delete all data about one booking or listing, or about one account",
  description: `Deletes the snapshot and all events of the booking or listing, with the notifications and attempts of the events.
Fails while the app handles an event of the booking or listing.\n\nWith --account, deletes the snapshots, events and timers of all
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
    const { total: count } = await countEvents(store, { ref });
    if (count === 0 && (await store.snapshotOf(ref)) === undefined)
      throw new MissingError(`The store has no data about ${ref}.`);
    await confirm(invocation, `Delete ${eventsOf(count)} and the snapshot of ${ref}`);
    return { ref, erased: await store.erase(ref) };
  });
  out.result({ erased }, () => `${eventsOf(erased)} and the snapshot of ${ref} deleted`);
}

async function eraseOf(invocation: Invocation, account: string): Promise<number> {
  const { out } = invocation;
  const erased = await withStore(invocation, async (store) => {
    const { total } = await countEvents(store, { account });
    await confirm(invocation, `Delete ${eventsOf(total)} and all snapshots of account ${account}`);
    return eraseAccount(store, account);
  });
  const { events, snapshots, processing } = erased;
  const rest = processing > 0 ? `. ${eventsOf(processing)} left, which the app is handling: call again` : "";
  out.result(
    erased,
    () => `${eventsOf(events)} and ${plural(snapshots, "snapshot")} of account ${account} deleted${rest}`,
  );
  return processing > 0 ? exitCodes.failed : exitCodes.done;
}
