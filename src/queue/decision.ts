/** What allows attempts to begin, read at one moment. */
export interface Limits {
  /** How many attempts could begin beside those that run. */
  readonly slots: number;
  /** ms until the pause lets attempts begin. */
  readonly pause: number;
  /** How many reads may begin. */
  readonly reads: number;
  /** ms until the next read may begin, where `reads` is 0. */
  readonly nextRead: number;
}

/** How many attempts may begin. */
export interface Room {
  readonly limit: number;
  /** ms until time makes room. `undefined`: only the end of an attempt or of a claim does. */
  readonly wait: number | undefined;
}

export function roomOf({ slots, pause, reads, nextRead }: Limits): Room {
  if (slots <= 0) return { limit: 0, wait: undefined };
  if (pause > 0) return { limit: 0, wait: pause };
  if (reads <= 0) return { limit: 0, wait: nextRead };
  return { limit: Math.min(slots, reads), wait: 0 };
}

/** All that the loop's next step depends on, read at one moment. Two readings may contradict each other: the loop once slept for ever over that. */
export interface LoopState {
  readonly room: Room;
  /** ms until the store may be asked again after a failure. */
  readonly storeWait: number;
  /** ms until something is due. `unknown`: the store has to be asked. Infinity: nothing waits. */
  readonly dueIn: number | "unknown";
}

export type Decision =
  | { readonly do: "claim"; readonly limit: number }
  /** Ask the store when the next event is due. */
  | { readonly do: "ask" }
  /** `ms` undefined: a notification, or the end of an attempt or of a claim, wakes the loop. */
  | { readonly do: "sleep"; readonly ms: number | undefined };

export function decide({ room, storeWait, dueIn }: LoopState): Decision {
  if (storeWait > 0) return { do: "sleep", ms: storeWait };
  if (dueIn === "unknown") return { do: "ask" };
  if (dueIn > 0) return { do: "sleep", ms: dueIn === Number.POSITIVE_INFINITY ? undefined : dueIn };
  return room.limit > 0 ? { do: "claim", limit: room.limit } : { do: "sleep", ms: room.wait };
}
