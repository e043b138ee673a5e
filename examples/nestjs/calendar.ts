import { Injectable } from "@nestjs/common";
import { type Booking, stay } from "stayhook";

/** A service of your app. */
@Injectable()
export class Calendar {
  block(booking: Booking): void {
    console.log("block", booking.bookingCode, stay(booking));
  }

  release(booking: Booking): void {
    console.log("release", booking.bookingCode, stay(booking));
  }
}
