import type { Sandbox, SandboxBooking } from "stayhook/testing";
import type { Account } from "./account.ts";

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Plays the platform's day in four parts: morning, noon, afternoon and evening. The caller asks for each part. The
 * notifications of a part are sent together in random order.
 *
 * @yields the number of moves so far. Each move is one event
 */
export async function* playDay(
  { bookings, listings }: Sandbox,
  account: Account,
): AsyncGenerator<number, number> {
  let moves = 0;

  async function move(text: string, moving: Promise<Record<string, unknown>>) {
    const { bookingCode, listingId, status } = await moving;
    moves++;
    account.line("platform", `${text} (${bookingCode ?? `listing ${listingId}`} is ${status})`);
    await pause(20);
  }

  async function book(text: string, booking: Promise<SandboxBooking>) {
    await move(text, booking);
    return (await booking).bookingCode;
  }

  const { listingId: loft } = await listings.create({ status: "Published", listingName: "Harbour Loft" });
  const { listingId: mill } = await listings.submit({ listingName: "Old Mill Cottage" });

  const ann = await book("Ann asks for the loft", bookings.request({ listingId: loft, guest: "Ann" }));
  const ben = await book("Ben asks for the loft", bookings.request({ listingId: loft, guest: "Ben" }));
  const cleo = await book(
    "Cleo books the loft at once",
    bookings.instantBook({ listingId: loft, guest: "Cleo" }),
  );
  await move("the cottage passes review", listings.publish(mill));
  yield moves;

  await move("the host approves Ann's request", bookings.approve(ann));
  await move("the host declines Ben's request", bookings.decline(ben));
  await move("Cleo cancels", bookings.cancel(cleo));
  const dan = await book("Dan asks for the cottage", bookings.request({ listingId: mill, guest: "Dan" }));
  await book("Eve books the cottage at once", bookings.instantBook({ listingId: mill, guest: "Eve" }));
  yield moves;

  await move("the host approves Dan's request", bookings.approve(dan));
  await book("Finn books the loft at once", bookings.instantBook({ listingId: loft, guest: "Finn" }));
  yield moves;

  await move("Dan cancels", bookings.cancel(dan));
  const gus = await book("Gus asks for the loft", bookings.request({ listingId: loft, guest: "Gus" }));
  await move("the host approves Gus's request, a moment later", bookings.approve(gus));
  return moves;
}
