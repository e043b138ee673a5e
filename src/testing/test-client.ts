import { StayhookClient } from "../client/client.ts";
import type { TestRecord } from "./test-records.ts";

/** A client that sends nothing: it gives the event's own record, and says of anything else that it cannot. */
export function standInClient(record: TestRecord | undefined): StayhookClient {
  const own = record && pathOf(record);
  return new StayhookClient({
    baseUrl: "https://test-event.invalid",
    accessToken: "test-event",
    maxRetries: 0,
    fetch: async (url, { method }) =>
      method === "GET" && new URL(url).pathname === own
        ? Response.json(record)
        : Response.json(
            {
              message: "the client of a test event knows its own record only; give createTestEvent a client",
            },
            { status: 501 },
          ),
  });
}

function pathOf({ bookingCode, listingId }: TestRecord): string {
  return bookingCode === undefined
    ? `/v2/listings/${listingId}`
    : `/v2/bookings/${encodeURIComponent(String(bookingCode))}`;
}
