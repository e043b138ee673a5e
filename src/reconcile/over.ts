import type { Booking } from "../models/booking.ts";
import { stay } from "../models/stay.ts";
import { ownRef } from "../stores/own.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { Notes } from "./notes.ts";

const DAY = 24 * 60 * 60_000;
/** A booking may change for so long after its last day, ms. */
const AFTERWARDS = 7 * DAY;

/** Whether its check-out has passed for a week. One without a date that can be read may change for ever. */
export function isOver(booking: Booking, now: number): boolean {
  try {
    // Only the check-out matters: an arrival long ago stands in for one that cannot be read.
    const { checkOut } = stay({ checkIn: "0001-01-01", checkOut: booking.checkOut });
    return Date.parse(checkOut) + DAY + AFTERWARDS <= now;
  } catch {
    return false;
  }
}

/** The bookings that can change no more. Kept in the store, as only reading one tells: each is read once. */
export class Over {
  readonly #store: EventStore<unknown>;
  readonly #notes: Notes;
  readonly #refs = new Set<string>();

  constructor(store: EventStore<unknown>, notes: Notes) {
    this.#store = store;
    this.#notes = notes;
  }

  async has(ref: string): Promise<boolean> {
    if (this.#refs.has(ref)) return true;
    const noted = (await this.#store.statusOf(ownRef(`over:${ref}`))) !== undefined;
    if (noted) this.#refs.add(ref);
    return noted;
  }

  async add(ref: string): Promise<void> {
    await this.#notes.write(ownRef(`over:${ref}`), undefined, "over");
    this.#refs.add(ref);
  }
}
