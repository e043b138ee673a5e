import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished } from "vitest";
import { StayhookClient } from "../../../src/index.ts";
import { createSandbox, type Sandbox } from "../../../src/testing/index.ts";
import type { Between } from "./between.ts";
import type { Example } from "./example.ts";

/** Starts a platform that delivers everything twice, and closes it after the test. */
export async function platform(): Promise<Sandbox> {
  const sandbox = createSandbox({ delivery: { duplicates: 1 } });
  onTestFinished(() => sandbox.close());
  await sandbox.listen();
  return sandbox;
}

/**
 * Sends SIGTERM while the example reads a booking. Checks that the example finishes the booking and then exits.
 *
 * @param proxy - stands between the example and the platform's API
 */
export async function expectCleanExit(sandbox: Sandbox, example: Example, proxy: Between): Promise<void> {
  proxy.hold(/\/bookings\//);
  const { bookingCode } = await sandbox.bookings.instantBook();
  await proxy.held(1);
  const stopped = example.stop();
  // An example that does not wait for the booking would exit within this time.
  await Promise.race([stopped, sleep(200)]);
  proxy.release();
  expect(await stopped).toEqual([0, null]);
  expectLines(example, [["block", bookingCode]]);
}

/** Configures the example's URL on the platform. */
export async function subscribe(sandbox: Sandbox, { hooks }: Pick<Example, "hooks">): Promise<void> {
  const client = new StayhookClient({ baseUrl: sandbox.url, accessToken: sandbox.accessToken });
  await client.webhookConfig.ensure({ endpoints: { bookings: hooks, listings: hooks } });
}

/**
 * Makes a booking, cancels it, publishes a listing and makes another booking. Checks that the example prints one line
 * for each: `block`, `release` or `live`, and then the code or id.
 */
export async function driveBookingAndListing(
  sandbox: Sandbox,
  example: Pick<Example, "hooks" | "said" | "output">,
): Promise<void> {
  await subscribe(sandbox, example);
  const { bookingCode } = await sandbox.bookings.instantBook();
  await example.said(line("block", bookingCode));
  await sandbox.bookings.cancel(bookingCode);
  await example.said(line("release", bookingCode));
  const { listingId } = await sandbox.listings.submit();
  await sandbox.listings.publish(listingId);
  await example.said(line("live", listingId));
  await sandbox.settled();
  // If an earlier duplicate also printed a line, that line comes before the line of this booking.
  const last = await sandbox.bookings.instantBook();
  await example.said(line("block", last.bookingCode));
  await sandbox.settled();
  expect(sandbox.deliveries.map(({ status }) => status)).toEqual(Array(8).fill(200));
  expectLines(example, [
    ["block", bookingCode],
    ["release", bookingCode],
    ["live", listingId],
    ["block", last.bookingCode],
  ]);
}

/** Checks that each line was printed exactly once. */
export function expectLines(
  { output }: Pick<Example, "output">,
  lines: readonly (readonly [word: string, id: string | number])[],
): void {
  for (const [word, id] of lines) {
    expect(output.match(new RegExp(line(word, id), "gm")), `${word} ${id} in\n${output}`).toHaveLength(1);
  }
}

function line(word: string, id: string | number): RegExp {
  return new RegExp(`^${word} ${id}\\b.*$`, "m");
}

/** Checks that the example rejects invalid requests, and names the wrong part of a notification. */
export async function expectRefusals({ url, hooks }: Pick<Example, "url" | "hooks">): Promise<void> {
  const { pathname } = new URL(hooks);
  const good = JSON.stringify({
    eventId: randomUUID(),
    timestamp: "2026-05-01T12:00:00Z",
    bookingCode: "A1",
  });
  expect((await post(`${url}${pathname}?key=guess`, good)).status).toBe(401);
  expect((await post(`${url}${pathname}`, good)).status).toBe(401);
  const malformed = await post(hooks, '{"eventId":"12","timestamp":"2026-05-01T12:00:00Z"}');
  expect(malformed.status).toBe(400);
  expect(await malformed.text()).toContain("eventId");
}

export function post(url: string, body: string): Promise<Response> {
  return fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
}

/** Makes a notification about a booking. */
export function notificationOf({ bookingCode }: { readonly bookingCode: string }, timestamp = new Date()) {
  return { eventId: randomUUID(), timestamp: timestamp.toISOString(), bookingCode, listingId: null };
}
