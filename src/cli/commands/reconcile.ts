import type { Command } from "../command.ts";
import { storeOptions } from "../open-store.ts";

export const reconcile: Command = {
  name: "reconcile",
  summary: "look for what never arrived",
  examples: ["stayhook reconcile --store events.db"],
  asksPlatform: true,
  options: storeOptions,
};
