import { eventsOf } from "../../../console/flash.ts";
import { planOfPrune } from "../../../console/plan.ts";
import { parseDuration } from "../../../duration.ts";
import { failureReasons } from "../../../stores/event-states.ts";
import { choiceOf, confirm, yesOption } from "../../arguments.ts";
import { type Subcommand, UsageError } from "../../command.ts";
import { storeOptions, withStore } from "../../open-store.ts";

/** The states of events that `prune` deletes. */
const prunable = ["done", "parked"] as const;

export const prune: Subcommand = {
  name: "prune",
  summary: "delete done or parked events",
  description: "If the platform delivers a deleted event again, the app handles the event as a new event.",
  examples: ["stayhook events prune --state parked --older-than 30d --yes --store events.db"],
  options: {
    state: {
      value: "<state>",
      help: "the state of the events: done or parked; default: done",
    },
    reason: {
      value: "<reason>",
      help: `only events whose last attempt failed for this reason: ${failureReasons.join(", ")}`,
    },
    "older-than": {
      value: "<age>",
      help: "only events that became done or parked at least this long ago: 24h, 30m or 0; default: 7d",
    },
    ...yesOption,
    ...storeOptions,
  },
  run: async (invocation) => {
    const { out, text } = invocation;
    const olderThan = text("older-than") ?? "7d";
    const age = olderThan === "0" ? 0 : parseDuration(olderThan);
    if (age === undefined) throw new UsageError("--older-than must be an age such as 24h, 30m or 0.");
    const state = choiceOf(invocation, "state", prunable) ?? "done";
    const reason = choiceOf(invocation, "reason", failureReasons);
    const pruned = await withStore(invocation, async (store) => {
      const plan = planOfPrune(store, { state, reason, age }, olderThan);
      await confirm(invocation, (await plan.describe()).question);
      return plan.run(() => {});
    });
    out.result({ pruned }, () => `${eventsOf(pruned, state)} deleted`);
  },
};
