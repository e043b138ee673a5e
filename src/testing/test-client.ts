import { StayhookClient } from "../client/client.ts";
import type { TestRecord } from "./test-records.ts";

/** A client that sends nothing. It gives the event's own record, and answers any other request with 501. */
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
              message:
                "the client of a test event only knows the event's own record; give createTestEvent a client",
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
