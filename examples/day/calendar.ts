import { type Booking, type Stay, stay } from "stayhook";

/** The nights that are taken, by booking. Blocking or releasing again what was is nothing. */
export class Calendar {
  readonly #stays = new Map<string, Stay>();
  nightsBlocked = 0;
  nightsReleased = 0;

  /** @returns the stay that is blocked now; `undefined` where it was before */
  block(booking: Booking): Stay | undefined {
    if (this.#stays.has(booking.bookingCode)) return undefined;
    const blocked = stay(booking);
    this.#stays.set(booking.bookingCode, blocked);
    this.nightsBlocked += blocked.nights;
    return blocked;
  }

  /** @returns the stay that is free now; `undefined` where it was not blocked */
  release(booking: Booking): Stay | undefined {
    const released = this.#stays.get(booking.bookingCode);
    this.#stays.delete(booking.bookingCode);
    this.nightsReleased += released?.nights ?? 0;
    return released;
  }

  get bookingCodes(): string[] {
    return [...this.#stays.keys()];
  }
}
