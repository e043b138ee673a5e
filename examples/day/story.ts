import type { Sandbox, SandboxBooking } from "stayhook/testing";
import type { Account } from "./account.ts";

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * What happens at the platform on this day. Each part's notifications are sent together, in random order.
 *
 * @returns how many moves it was, each of them an event
 */
export async function playDay({ bookings, listings }: Sandbox, account: Account): Promise<number> {
  let moves = 0;

  async function move(text: string, moving: Promise<Record<string, unknown>>) {
    const { bookingCode, listingId, status } = await moving;
    moves++;
    account.line("platform", `${text} (${bookingCode ?? `listing ${listingId}`} is ${status})`);
    await pause(50);
  }

  async function book(text: string, booking: Promise<SandboxBooking>) {
    await move(text, booking);
    return (await booking).bookingCode;
  }

  const { listingId: loft } = await listings.create({ status: "Published", listingName: "Harbour Loft" });
  const { listingId: mill } = await listings.submit({ listingName: "Old Mill Cottage" });

  account.heading("Morning");
  const ann = await book("Ann asks for the loft", bookings.request({ listingId: loft, guest: "Ann" }));
  const ben = await book("Ben asks for the loft", bookings.request({ listingId: loft, guest: "Ben" }));
  const cleo = await book(
    "Cleo books the loft at once",
    bookings.instantBook({ listingId: loft, guest: "Cleo" }),
  );
  await move("the cottage passes review", listings.publish(mill));
  await pause(1200);

  account.heading("Noon");
  await move("the host approves Ann's request", bookings.approve(ann));
  await move("the host declines Ben's request", bookings.decline(ben));
  await move("Cleo cancels", bookings.cancel(cleo));
  const dan = await book("Dan asks for the cottage", bookings.request({ listingId: mill, guest: "Dan" }));
  await book("Eve books the cottage at once", bookings.instantBook({ listingId: mill, guest: "Eve" }));
  await pause(1200);

  account.heading("Evening");
  await move("the host approves Dan's request", bookings.approve(dan));
  await move("Dan cancels, a moment later", bookings.cancel(dan));
  await book("Finn books the loft at once", bookings.instantBook({ listingId: loft, guest: "Finn" }));
  return moves;
}
