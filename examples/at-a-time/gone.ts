// What to do when the platform no longer returns a booking: docs/recovering.md.
import type { BookingEvent } from "stayhook";

export const on = {
  "booking.gone": async (event: BookingEvent<"gone">) => {
    const { from } = event.stayChange; // `to` is undefined
    if (from) console.log("free", from.listingId, from.bookingCode, from.checkIn, from.checkOut);
    event.timers.clear();
  },
};
