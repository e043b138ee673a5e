// In which trace each step of an event is, and whose baggage it sees: those of its own request, or none.

import { DatabaseSync, StatementSync } from "node:sqlite";
import { context, propagation, type Tracer, trace } from "@opentelemetry/api";
import { Redis } from "ioredis";
import mysql from "mysql2/promise";
import pg from "pg";
import { createWebhookHandler } from "stayhook";
import { telemetry } from "stayhook/otel";
import { describe, expect, onTestFinished, test } from "vitest";
import { describeEvery, type Kind, opened } from "../stores/every/stores.ts";
import { eventually } from "../support/eventually.ts";
import { clientOf, notificationOf, platformOf } from "../webhooks/support.ts";
import { makeSdk, type SpanShown } from "./sdk.ts";

/** The methods that the instrumentation of each driver wraps. */
const STATEMENTS: Readonly<Record<Kind["name"], readonly (readonly [prototype: object, method: string])[]>> =
  {
    memory: [],
    SQLite: [
      [DatabaseSync.prototype, "exec"],
      ...["run", "get", "all"].map((method) => [StatementSync.prototype, method] as const),
    ],
    PostgreSQL: [[pg.Client.prototype, "query"]],
    MySQL: [[mysql.Connection.prototype, "query"]],
    Redis: [[Redis.prototype, "sendCommand"]],
  };

/**
 * Makes a span for each statement, as the instrumentation of a driver does: what is active at the call is the parent.
 *
 * @returns the names of the spans that were active although they had ended
 */
function instrument({ name }: Kind, tracer: Tracer): string[] {
  const ended: string[] = [];
  for (const [prototype, method] of STATEMENTS[name]) {
    const target = prototype as Record<string, (...args: unknown[]) => unknown>;
    const own = target[method]!;
    target[method] = function (...args) {
      const active = trace.getActiveSpan() as { name?: string; isRecording(): boolean } | undefined;
      if (active?.isRecording() === false) ended.push(String(active.name));
      tracer.startSpan("statement").end();
      return own.apply(this, args);
    };
    onTestFinished(() => {
      target[method] = own;
    });
  }
  return ended;
}

/** Starts the span of a user's request, and runs it there with the user in its baggage. */
async function inRequest<T>(tracer: Tracer, user: string, run: () => T | Promise<T>): Promise<T> {
  const span = tracer.startSpan(`POST ${user}`, { root: true });
  const baggage = propagation.createBaggage({ user: { value: user } });
  const active = propagation.setBaggage(trace.setSpan(context.active(), span), baggage);
  const result = await context.with(active, run);
  span.end();
  return result;
}

const USERS = ["first", "second", "third"];
/** Whether the callback of a notification sees the context of its request. */
const MODES = { "in the background": false, "with waitUntil": true, inline: true };
type Mode = keyof typeof MODES;

/** Makes a handler whose callbacks note whose baggage they see. */
function noting(kind: Kind, mode: Mode) {
  const { tracer, instruments, spans, end } = makeSdk();
  onTestFinished(end);
  const ended = instrument(kind, tracer);
  const platform = platformOf();
  for (const user of USERS) platform.booking(user, "Confirmed");
  const saw: Record<string, string | undefined> = {};
  const make = (store: ReturnType<typeof opened>) => {
    const otel = telemetry(instruments);
    const webhooks = createWebhookHandler({
      client: clientOf(platform, { telemetry: otel }),
      store,
      verify: false,
      telemetry: otel,
      ...(mode === "inline" && { processing: "inline" }),
      on: {
        "booking.Confirmed": ({ booking, atomically }) => {
          const user = booking.bookingCode;
          saw[user] = propagation.getActiveBaggage()?.getEntry("user")?.value;
          tracer.startSpan(`work ${user}`).end();
          if (!kind.isTransactional) return;
          atomically((tx) => {
            tracer.startSpan(`write ${user}`).end();
            return kind.write!(tx, "SELECT 1");
          });
        },
      },
    });
    onTestFinished(() => webhooks.close({ timeout: 0 }));
    return webhooks;
  };
  return { tracer, spans, ended, saw, make };
}

describeEvery(
  () => true,
  (kind) => {
    describe.each(Object.entries(MODES))("%s", (mode, seesOwn) => {
      test.each([
        ["fetch", "at module level"],
        ["receive", "at module level"],
        ["fetch", "inside a request"],
        ["receive", "inside a request"],
      ])("by %s, in a handler that is made %s", async (entry, made) => {
        const { tracer, spans, ended, saw, make } = noting(kind, mode as Mode);
        const place = await kind.create();
        const store = opened(place);
        const webhooks =
          made === "inside a request" ? await inRequest(tracer, "maker", () => make(store)) : make(store);
        const waited: Promise<unknown>[] = [];
        const waitUntil = (promise: Promise<unknown>) => void waited.push(promise);
        const more = mode === "with waitUntil" ? { waitUntil } : {};
        const post = (user: string) =>
          inRequest(tracer, user, async () => {
            const body = JSON.stringify(notificationOf({ bookingCode: user }));
            const [method, url] = ["POST", "https://subscriber.example/hooks?topic=bookings"];
            const { status } = await (entry === "fetch"
              ? webhooks.fetch(new Request(url, { method, body }), more)
              : webhooks.receive({ method, url, headers: {}, body }, more));
            expect(status).toBe(200);
          });
        const handled = (count: number) =>
          eventually(() => expect(spans("process bookings")).toHaveLength(count));

        await post("first");
        await handled(1);
        await Promise.all([post("second"), post("third")]);
        await handled(3);
        await Promise.all(waited);

        expect(saw).toEqual(Object.fromEntries(USERS.map((user) => [user, seesOwn ? user : undefined])));
        for (const user of USERS) expectOwnTrace(spans(), user, kind);
        expect(ended).toEqual([]);
        expect(spans("statement").length > 0).toBe(kind.name !== "memory");
      });
    });
  },
);

/** Checks that the attempt at a user's event has a trace of its own, with its steps and no step of another event. */
function expectOwnTrace(spans: readonly SpanShown[], user: string, { isTransactional }: Kind): void {
  const ofTrace = (id: string | undefined) => spans.filter(({ traceId }) => traceId === id);
  const ref = `booking:${user}`;
  const [attempt] = spans.filter(
    ({ name, attributes }) =>
      name === "process bookings" && attributes["messaging.message.conversation_id"] === ref,
  );
  const post = spans.find(({ name }) => name === `POST ${user}`);
  const sent = ofTrace(post?.traceId).find(({ name }) => name === "send bookings");
  expect(attempt?.parent).toBe(undefined);
  expect(attempt?.links.map(({ spanId }) => spanId)).toEqual([sent?.spanId]);
  // Calls that arrive together share a statement, which is in the trace of one of them.
  const stepsOf = (id: string | undefined) =>
    ofTrace(id)
      .map(({ name }) => name)
      .filter((name) => name !== "statement")
      .toSorted();
  expect(stepsOf(post?.traceId)).toEqual([`POST ${user}`, "send bookings"]);
  expect(stepsOf(attempt?.traceId)).toEqual([
    "GET /v2/bookings/{bookingCode}",
    "process bookings",
    `work ${user}`,
    ...(isTransactional ? [`write ${user}`] : []),
  ]);
}
