import { duration } from "../../../console/html.ts";
import { eventStates } from "../../../stores/event-states.ts";
import type { Subcommand } from "../../command.ts";
import { storeOptions, withStore } from "../../open-store.ts";
import type { Output } from "../../output.ts";

export const counts: Subcommand = {
  name: "counts",
  summary: "count the events in each state",
  examples: ["stayhook events counts --store events.db --json"],
  options: storeOptions,
  run: async (invocation) => {
    await withStore(invocation, async (store) => {
      const counted = await store.counts();
      const waiting = await store.oldestWaiting();
      const oldestWaiting = waiting === undefined ? null : Math.round(waiting / 1000);
      invocation.out.result({ ...counted, oldestWaiting }, () =>
        invocation.out.fields([
          ...eventStates.map((state) => [state, counted[state]] as const),
          ["age of the oldest waiting event", ageOf(invocation.out, oldestWaiting)],
        ]),
      );
    });
  },
};

function ageOf(out: Output, seconds: number | null): string | null {
  if (seconds === null) return null;
  return out.isTerminal ? duration(seconds * 1000) : `${seconds} s`;
}
