import { eventsOf } from "../../../console/flash.ts";
import { adoptInto } from "../../adopt.ts";
import { accountGiven, confirm } from "../../arguments.ts";
import { exitCodes, type Subcommand, UsageError } from "../../command.ts";
import { storeOptions, withStore } from "../../open-store.ts";
import { plural } from "../../output.ts";

export const adopt: Subcommand = {
  name: "adopt",
  summary: "give what has no account to an account",
  description: `Use it when an app for one account begins to serve many: gives all events, timers and snapshots without an account, and the
place of the reconciler, to the account. Stop the processes of the old app first; those of the new one, with accountFrom, may run.
If the command was interrupted, run it again.`,
  examples: ["stayhook events adopt --account a17 --store events.db"],
  options: {
    account: { value: "<id>", help: "the account that gets the events; required" },
    yes: { short: "y", help: "do not ask for confirmation on a terminal" },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { io, out } = invocation;
    const account = accountGiven(invocation);
    if (account === undefined) throw new UsageError("Give the account: --account a17.");
    const adopted = await withStore(invocation, async (store) => {
      // Nothing is deleted, so a script need not confirm.
      if (io.stdin.isTTY === true)
        await confirm(invocation, `Give all events and snapshots without an account to account ${account}`);
      const wipe = out.progress("adopting");
      return adoptInto(store, account).finally(wipe);
    });
    const { events, snapshots, processing } = adopted;
    const rest =
      processing > 0 ? `. ${plural(processing, "record")} left, which a process is handling: call again` : "";
    out.result(
      adopted,
      () => `Account ${account} has got ${eventsOf(events)} and ${plural(snapshots, "snapshot")}${rest}`,
    );
    return processing > 0 ? exitCodes.failed : exitCodes.done;
  },
};
