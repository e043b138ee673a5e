import type { Command } from "../command.ts";
import { adopt } from "./events/adopt.ts";
import { discard, replay } from "./events/change.ts";
import { counts } from "./events/counts.ts";
import { erase } from "./events/erase.ts";
import { ls } from "./events/ls.ts";
import { prune } from "./events/prune.ts";
import { show } from "./events/show.ts";

export const events: Command = {
  examples: ["stayhook events ls --store events.db --state parked"],
  commands: [ls, show, replay, discard, prune, erase, adopt, counts],
};
