import type { Log } from "../../logger.ts";
import { eventType, type Subject } from "../refs.ts";
import type { TimerRules } from "../timers.ts";

/** The number of statuses that the handler remembers. A platform that sends random ones must not fill the log. */
const MOST = 100;
/** The number of characters of a status that the line shows. */
const SHOWN = 100;

/** Tells that a record has this status. */
export type StatusSeen = (kind: Subject["kind"], status: string, ref: string | null) => void;

/** Makes a function that warns once about each status that has no event type. */
export function unknownStatuses(rules: TimerRules, log: Log): StatusSeen {
  const told = new Set<string>();
  return (kind, status, ref) => {
    const type = eventType(kind, status);
    const shown = status.slice(0, SHOWN);
    const key = `${kind} ${shown}`;
    if (type !== `${kind}.unknown`) return;
    if (told.has(key) || told.size >= MOST) return;
    told.add(key);
    const advice = rules.handles(type)
      ? `${kind === "booking" ? "It neither begins nor ends a stay. " : ""}If you know what it means, say so in the callback ${type}`
      : `No callback handles it. Add ${type}, or ${kind} for all events of a ${kind}`;
    log.warn(`the platform sent the status \`${shown}\`, which this version does not know. ${advice}`, {
      ref,
    });
  };
}
