import { randomUUID } from "node:crypto";
import fc from "fast-check";
import {
  APIError,
  createWebhookHandler,
  listingIdOf,
  memoryStore,
  type Observation,
  ResponseValidationError,
  StayhookClient,
  stay,
  type WebhookEvent,
} from "stayhook";
import { beforeAll, describe, expect, it } from "vitest";
import { seedOf } from "../system/random.ts";
import { dates, envelopes, type Path, recordOf, records, wrap } from "./answer-forms.ts";
import { accessToken, type Platform, platformUntilEnd } from "./support.ts";

// The handler gets a notification, reads its record over HTTP, and runs the callback. Every form of the record must
// give the same event. An answer without a valid record must park the event, with an error that says why.

const seed = seedOf("WHOLE_PATH");
const numRuns = 250;
const time = Date.parse("2026-06-20T10:15:30Z");
const logger = { debug() {}, info() {}, warn() {}, error() {} };

let answer: { status: number; text: string };
let server: Platform;
beforeAll(async () => {
  server = await platformUntilEnd(() => answer);
});

interface Handled {
  readonly status: number;
  readonly events: WebhookEvent[];
  readonly end: Observation | undefined;
  /** Errors that `observe` got. */
  readonly errors: unknown[];
}

/** Sends a notification to a new handler and drains its queue. */
async function handle(notification: object): Promise<Handled> {
  const events: WebhookEvent[] = [];
  const observed: Observation[] = [];
  const store = memoryStore();
  const webhooks = createWebhookHandler({
    client: new StayhookClient({ baseUrl: server.url, accessToken, logger, maxRetries: 0 }),
    store,
    verify: false,
    autoStart: false,
    recheckAfter: false,
    maxAttempts: 1,
    logger,
    observe: (each) => observed.push(each),
    on: { fallback: (event) => events.push(event) },
  });
  const body = JSON.stringify({ eventId: randomUUID(), ...notification });
  const { status } = await webhooks.receive({ method: "POST", url: "/", headers: {}, body });
  await webhooks.drain();
  await webhooks.close();
  await store.close();
  const end = observed.findLast(({ kind }) => kind === "done" || kind === "parked");
  return { status, events, end, errors: observed.flatMap((each) => ("error" in each ? [each.error] : [])) };
}

const subjects = fc.constantFrom("booking" as const, "listing" as const);
const timestamps = fc.constantFrom<unknown>(
  "2026-06-20T10:15:30Z",
  "2026-06-20T12:15:30+02:00",
  "20260620T101530Z",
  "20260620T121530+02",
  time,
  time / 1000,
  String(time),
);
const references = fc.record({
  timestamp: timestamps,
  digits: fc.boolean(),
  blank: fc.constantFrom(null, ""),
});

function notificationOf(
  kind: "booking" | "listing",
  { timestamp, digits, blank }: { timestamp: unknown; digits: boolean; blank: null | "" },
): object {
  if (kind === "booking") return { timestamp, bookingCode: "HX3K9", listingId: blank };
  return { timestamp, bookingCode: blank, listingId: digits ? "7" : 7 };
}

const send = (json: unknown, status = 200): void => {
  answer = { status, text: JSON.stringify(json) };
};
const check = <T>(property: fc.IAsyncProperty<T>) => fc.assert(property, { seed, numRuns });

describe(`from the notification to the callback (seed ${seed})`, { timeout: 120_000 }, () => {
  it("each form of an answer gives the same event", async () => {
    await check(
      fc.asyncProperty(
        subjects,
        records,
        dates,
        envelopes,
        references,
        async (kind, record, days, envelope, refs) => {
          const { sent, given } = recordOf({ ...record, kind, dates: days });
          send(wrap(sent, envelope).json);
          const { status, events, end } = await handle(notificationOf(kind, refs));
          expect(status).toBe(200);
          expect(end).toMatchObject({ kind: "done", status: record.status });
          expect(events).toHaveLength(1);
          const [event] = events as [WebhookEvent];
          const known = { booking: ["Request"], listing: ["Published"] }[kind];
          expect(event.type).toBe(`${kind}.${known.includes(record.status) ? record.status : "unknown"}`);
          expect(event).toMatchObject({ status: record.status, changed: true, previous: undefined });
          expect(event.timestamp.getTime()).toBe(time);
          expect(kind === "booking" ? event.booking : event.listing).toEqual(given);
          expect(listingIdOf(event.booking ?? event.listing ?? {})).toBe(7);
          if (!event.booking) return;
          expect(stay(event.booking)).toEqual({ checkIn: "2026-07-01", checkOut: "2026-07-04", nights: 3 });
          expect(event.changes.checkIn).toEqual({ from: undefined, to: "2026-07-01" });
        },
      ),
    );
  });

  it("another record, or a broken one, runs no callback and parks the event with the path", async () => {
    const flaws = fc.constantFrom("other", "bad identity", "no status", "bad status", "text", "two");
    await check(
      fc.asyncProperty(
        subjects,
        records,
        envelopes,
        references,
        flaws,
        async (kind, record, envelope, refs, flaw) => {
          const { sent } = recordOf({ ...record, kind, further: [] });
          const identity = kind === "booking" ? "bookingCode" : "listingId";
          const field = flaw.endsWith("status") ? "status" : identity;
          const others: Record<string, unknown> = {
            other: { ...sent, [identity]: kind === "booking" ? "HX3K8" : 8 },
            "no status": { ...sent, status: undefined },
            text: "maintenance",
            two: [sent, sent],
          };
          const { json, path } = wrap(others[flaw] ?? { ...sent, [field]: [5] }, envelope);
          send(json);
          const { status, events, end } = await handle(notificationOf(kind, refs));
          expect([status, events]).toEqual([200, []]);
          expect(end).toMatchObject({ kind: "parked", reason: "invalid-record" });
          const { error } = end as { error: unknown };
          if (!(error instanceof ResponseValidationError)) throw error;
          const paths = error.issues.map((issue) => issue.path.join("."));
          const named = flaw === "text" || flaw === "two" ? undefined : [...path, field].join(".");
          if (named === undefined) expect(paths.length).toBeGreaterThan(0);
          else {
            expect(paths).toContain(named);
            expect(error.message).toContain(named);
          }
        },
      ),
    );
  });

  it("no record runs no callback and parks the event as not found, and an outage never does", async () => {
    const none = fc.constantFrom<{ json?: unknown; status?: number; path?: Path }>(
      { status: 404, json: { error: "x" } },
      { status: 410 },
      { status: 204 },
      {},
      { json: null },
      { json: {} },
      { json: { code: 404, data: { a: 1 } } },
      { json: { status: 410 } },
      { json: { success: true } },
      { json: { data: null, code: 0 } },
      { json: { success: true, result: { booking: {} } } },
    );
    const outage = fc.constantFrom<{ json?: unknown; status?: number }>(
      { status: 500 },
      { status: 503, json: { data: null } },
      { status: 429 },
      { json: { success: false, data: null } },
      { json: { data: null, error: "database down" } },
      { json: { data: {}, message: "Error: timeout" } },
      { json: { data: null, statusCode: "502" } },
    );
    await check(
      fc.asyncProperty(
        subjects,
        none,
        outage,
        fc.boolean(),
        references,
        async (kind, gone, down, isDown, refs) => {
          const { json, status: code = 200 } = isDown ? down : gone;
          answer = { status: code, text: json === undefined ? "" : JSON.stringify(json) };
          const { status, events, end, errors } = await handle(notificationOf(kind, refs));
          expect([status, events]).toEqual([200, []]);
          const [error] = errors;
          expect(error instanceof APIError || error instanceof ResponseValidationError).toBe(true);
          if (isDown) expect(end).not.toMatchObject({ reason: "not-found" });
          else expect(end).toMatchObject({ kind: "parked", reason: "not-found" });
        },
      ),
    );
  });
});
