import { Injectable } from "@nestjs/common";
import { type Booking, stay } from "stayhook";

/** A service of your app. It keeps one stay for each booking code, so that a moved stay replaces the old one. */
@Injectable()
export class Calendar {
  set(booking: Booking): void {
    console.log("block", booking.bookingCode, booking.listingId, stay(booking));
  }

  delete({ bookingCode }: Pick<Booking, "bookingCode">): void {
    console.log("release", bookingCode);
  }
}
