import { setTimeout as sleep } from "node:timers/promises";
import { StayhookClient } from "stayhook";
import type { Sandbox } from "stayhook/testing";

/** How long to wait for the example's output, in ms, so that it appears before the next step. */
const PAUSE = 300;

/** Configures the example on the platform, and plays a listing and two bookings. */
export async function play(sandbox: Sandbox, hooks: string): Promise<void> {
  const client = new StayhookClient({ baseUrl: sandbox.url, accessToken: sandbox.accessToken });
  await client.webhookConfig.ensure({ endpoints: { bookings: hooks, listings: hooks } });
  console.log(`The platform, ${sandbox.url}, sends each notification twice, to ${hooks}`);

  const { listingId } = await sandbox.listings.submit();
  await tell(sandbox, `listing ${listingId} passes its review`, () => sandbox.listings.publish(listingId));
  const { bookings } = sandbox;
  const first = await tell(sandbox, "a guest asks for a stay", () => bookings.request({ listingId }));
  await tell(sandbox, `the host approves ${first.bookingCode}`, () => bookings.approve(first.bookingCode));
  const second = await tell(sandbox, "another books at once", () => bookings.instantBook({ listingId }));
  await tell(sandbox, `${second.bookingCode} is cancelled`, () => bookings.cancel(second.bookingCode));
}

async function tell<T>(sandbox: Sandbox, what: string, move: () => Promise<T>): Promise<T> {
  console.log(`\n${what}`);
  const { deliveries, requests } = sandbox;
  const moved = await move();
  await sandbox.settled();
  const answers = sandbox.deliveries.slice(deliveries.length).map(({ status, error }) => status ?? error);
  console.log(`  delivered, and answered ${answers.join(", ")}`);
  // The example reads the record of a notification before it acts.
  for (let waits = 0; sandbox.requests.length === requests.length && waits < 50; waits++) await sleep(100);
  await sleep(PAUSE);
  return moved;
}
