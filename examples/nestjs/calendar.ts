import { Injectable } from "@nestjs/common";
import type { Booking, StayChange } from "stayhook";

/** A service of your app. It keeps one stay for each booking code, so that a moved stay replaces the old one. */
@Injectable()
export class Calendar {
  set({ to }: StayChange): void {
    if (to) console.log("block", to.bookingCode, to.listingId, to);
  }

  delete({ bookingCode }: Pick<Booking, "bookingCode">): void {
    console.log("release", bookingCode);
  }
}
