/** The results of `probe.ts` that every runtime must produce. */

const error = (name: string, ...also: readonly string[]) => ({
  name,
  of: [name, ...also, "StayhookError"].sort(),
});
const invalid = (...issues: readonly string[]) => ({ ...error("InvalidArgumentError"), issues });
/** An error of a status without its own class, or with a class that the probe does not import. */
const apiError = (name: string, status: number) => ({ name, of: ["APIError", "StayhookError"], status });
const onceCalled = ["booking.Confirmed 1"];

export const expected = {
  client: {
    listings: [[101, "Published"]],
    listing: "Loft",
    booking: ["HX3K9", "Confirmed", 200, true],
    missing: { ...error("NotFoundError", "APIError"), status: 404 },
    ensured: ["created", "unchanged"],
    toggled: false,
    deleted: ["undefined", "undefined"],
    seen: [
      "GET /v2/listings",
      "200 true",
      "GET /v2/bookings/{bookingCode}",
      "200 true",
      "GET /v2/listings/{listingId}",
      "200 true",
    ],
  },
  failures: {
    once503: "Confirmed",
    once429: "Confirmed",
    cut: error("ConnectionError"),
    always500: apiError("InternalServerError", 500),
    redirected: "Confirmed",
    refreshed: ["Confirmed", 2],
    writeRedirected: apiError("APIError", 307),
    silent: error("ConnectionTimeoutError", "ConnectionError"),
    aborted: error("AbortError"),
    timeoutSignal: error("AbortError"),
    noRecord: error("ResponseValidationError"),
    noJson: error("ResponseValidationError"),
    refusedPort: error("ConnectionError"),
    noToken: error("AccessTokenError"),
    echo: { text: "Zoë 🏡" },
    badOptions: invalid("baseUrl"),
  },
  stays: [3, invalid("checkIn")],
  localTimes: ["2026-01-01T15:00:00.000Z", "2026-07-01T14:00:00.000Z"],
  answers: {
    first: 200,
    again: 200,
    streamed: 200,
    object: 200,
    otherSecret: 200,
    wrongSecret: 401,
    noSecret: 401,
    header: 200,
    wrongHeader: 401,
    rawBody: 200,
    get: 405,
    noJson: 400,
    fields: [400, "application/problem+json", true],
    tooLarge: 413,
    stalled: 408,
    counts: { scheduled: 0, pending: 2, processing: 0, retrying: 0, done: 0, parked: 0 },
    badSecret: invalid("secret"),
  },
  once: {
    before: "idle",
    answers: [200, 200, 200, 200],
    calls: ["booking.Confirmed 1", "listing.Published 1"],
    state: "running",
    counts: { scheduled: 0, pending: 0, processing: 0, retrying: 0, done: 2, parked: 0 },
    received: true,
    kept: ["done", "booking.Confirmed", 1],
    status: "Confirmed",
  },
  retried: ["HX3K9 1 false", "HX3K9 2 false", "HX3K9 3 false"],
  drained: {
    before: 0,
    drained: { done: 2, failed: 1 },
    again: { done: 0, failed: 0 },
    calls: ["booking.Confirmed 1", "listing.Published 1"],
  },
  waitedUntil: { status: 200, state: "idle", promises: 1, calls: onceCalled },
  inline: { status: 200, calls: onceCalled },
  rechecked: {
    drained: { done: 2, failed: 0 },
    kept: ["recheck scheduled vc", "webhook done v4", "webhook done v4"],
  },
  closed: {
    heard: ["AbortError", "AbortError"],
    late: [200, false],
    state: "stopped",
    ends: [
      ["pending", 0],
      ["done", 1],
    ],
  },
  process: { type: "booking.Confirmed", calls: ["booking.Confirmed 3"], missing: error("ProcessingError") },
};
