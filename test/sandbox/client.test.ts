import { expect, it } from "vitest";
import { StayhookClient } from "../../src/client/client.ts";
import {
  AuthenticationError,
  BadRequestError,
  ConflictError,
  NotFoundError,
} from "../../src/client/errors.ts";
import type { Booking } from "../../src/models/booking.ts";
import type { Listing } from "../../src/models/listing.ts";
import { startSandbox } from "./setup.ts";

it("answers the client at every endpoint", async () => {
  const sandbox = await startSandbox({ accessToken: "tok" });
  const client = new StayhookClient({ baseUrl: sandbox.url, accessToken: sandbox.accessToken });
  const endpoints = { bookings: "http://127.0.0.1:3000/hooks?key=1" };

  expect(await client.webhookConfig.get()).toBeUndefined();
  expect(await client.webhookConfig.create({ isActive: true, endpoints })).toEqual({
    isActive: true,
    endpoints,
  });
  await expect(client.webhookConfig.create({ isActive: true, endpoints })).rejects.toBeInstanceOf(
    ConflictError,
  );
  expect(await client.webhookConfig.toggle(false)).toEqual({ isActive: false, endpoints });
  const ensured = await client.webhookConfig.ensure({ endpoints: { listings: "http://localhost:3000/" } });
  expect(ensured.action).toBe("updated");
  expect(await client.webhookConfig.get()).toEqual({
    isActive: true,
    endpoints: { ...endpoints, listings: "http://localhost:3000/" },
  });
  expect(await client.webhookConfig.update({ isActive: true, endpoints })).toEqual({
    isActive: true,
    endpoints,
  });
  expect(await client.webhookConfig.delete()).toBeUndefined();
  expect(sandbox.webhookConfig).toBeUndefined();
  await expect(client.webhookConfig.update({ isActive: true, endpoints })).rejects.toBeInstanceOf(
    NotFoundError,
  );

  // A sandbox's record is one of the client's too.
  const listing: Listing = await sandbox.listings.submit({ rooms: 2 });
  const booking: Booking = await sandbox.bookings.request({ guests: 2 });
  expect(await client.listings.list()).toEqual([listing]);
  expect(await client.listings.get(listing.listingId)).toEqual(listing);
  expect(await client.bookings.get(booking.bookingCode)).toEqual(booking);

  const missing = await client.bookings.get("NONE").then(undefined, (error: unknown) => error);
  expect(missing).toBeInstanceOf(NotFoundError);
  expect(missing).toMatchObject({
    requestId: expect.stringMatching(/./),
    body: { error: { code: "not_found" } },
  });
  const wrong = client.request("POST", "/v2/webhooks/config", { body: { isActive: 1 } });
  await expect(wrong).rejects.toBeInstanceOf(BadRequestError);
  const stranger = new StayhookClient({ baseUrl: sandbox.url, accessToken: "other" });
  await expect(stranger.listings.list()).rejects.toBeInstanceOf(AuthenticationError);
});
