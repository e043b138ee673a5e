import type { ClaimedEvent } from "../stores/stored-event.ts";
import { lanesOf, type QueueOptions, recordOf } from "./work.ts";

/** How many events without a record and without an account are remembered. */
const MOST = 10_000;

/** The events without an account in a process that has accounts. They stay for others, and are left out of claims. */
export class Strays {
  readonly #queue: Pick<QueueOptions<never>, "hasAccounts" | "laneOf" | "beginningOf">;
  readonly #ids = new Set<string>();

  constructor(queue: Pick<QueueOptions<never>, "hasAccounts" | "laneOf" | "beginningOf">) {
    this.#queue = queue;
  }

  get beginnings(): readonly string[] {
    const { hasAccounts, beginningOf } = this.#queue;
    if (!hasAccounts) return [];
    return [...lanesOf({ account: undefined, kind: undefined }).map(beginningOf), ...this.#ids];
  }

  /** Notes a claimed event. @returns whether it is a stray, which this process must not handle */
  note(claim: ClaimedEvent): boolean {
    const lane = this.#queue.laneOf(claim);
    if (!this.#queue.hasAccounts || lane.account !== undefined) return false;
    // No beginning names all such events that read nothing, so each record of them is claimed once.
    if (lane.kind === undefined && this.#ids.size < MOST) this.#ids.add(recordOf(claim));
    return true;
  }
}
