// What the rules of this folder know. Facts change it, and plan.ts says what follows from it. A gate, a flood and the shares
// of the accounts are values that nobody changes: each fact makes new ones.

import type { Fairness } from "./fairness.ts";
import type { Floods } from "./floods.ts";
import type { Gates } from "./gates.ts";
import type { QueueOptions } from "./work.ts";

/** The slots of this process. */
export interface Slots {
  /** How many attempts run. */
  running: number;
  /** How many of them only wait for the store to record their end. */
  settling: number;
  /** How many slots the claims in flight have reserved. */
  reserved: number;
  /** How many times an attempt has given up its slot, since the process began. */
  freed: number;
}

/** The state of a queue: plain facts, and the rules that read them. */
export interface QueueState
  extends Pick<QueueOptions<never>, "laneOf" | "beginningOf" | "hasAccounts" | "policy"> {
  readonly gates: Gates;
  readonly floods: Floods;
  fairness: Fairness;
  readonly slots: Slots;
  /** Beginnings of the records that stay for other processes. */
  readonly strays: () => readonly string[];
  /** Whether a store wakes the queue when another process has recorded an event. */
  readonly isWoken: boolean;
  /** Whether the queue is closed, so that nothing begins any more. */
  isClosed: boolean;
}

/** How many attempts may begin now, besides those that claims in flight will start. */
export function freeSlots({ slots, policy: { concurrency }, isClosed }: QueueState): number {
  if (isClosed) return 0;
  // Up to `concurrency` attempts that only record their end take no slot. Without this limit, such attempts would
  // pile up if the store is slow, or records nothing.
  return concurrency + Math.min(slots.settling, concurrency) - slots.running - slots.reserved;
}
