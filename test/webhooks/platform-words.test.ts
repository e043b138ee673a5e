import { pino } from "pino";
import { createWebhookHandler, type LogEntry, memoryStore, type WebhookHandlerOptions } from "stayhook";
import { createConsole } from "stayhook/console";
import { telemetry } from "stayhook/otel";
import { createReconciler } from "stayhook/reconcile";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { makeSdk } from "../otel/sdk.ts";
import { clientOf, notificationOf, platformOf } from "./support.ts";

const GUEST = "anna@example.com";
const answers = {
  "a 422 whose message names a guest": { status: 422, body: { message: `guest ${GUEST} is blocked` } },
  "a 500 with a nested message": { status: 500, body: { error: { message: `no mail for ${GUEST}` } } },
  "a 200 that reports a failure": { status: 200, body: { success: false, error: `blocked: ${GUEST}` } },
  "a 200 whose failure has a value": { status: 200, body: { success: GUEST, ok: false } },
  "a 404 with words": { status: 404, body: { detail: `${GUEST} has no booking` } },
  "a redirect whose query has a name": {
    status: 302,
    headers: { location: `https://x.example/?q=${GUEST}` },
  },
  "a 200 that is cut JSON": { status: 200, text: `{"bookingCode":"HX3K9","guest":"${GUEST}","sta` },
} as const;

const requestOf = (fields: { readonly eventId?: string; readonly bookingCode: string }) => ({
  ...{ method: "POST", url: "/", headers: {} },
  body: JSON.stringify(notificationOf(fields)),
});

/** Everything that a handler writes about its attempts: logs in three forms, the store, the console and the trace. */
async function written(
  answer: (typeof answers)[keyof typeof answers],
  options: Partial<WebhookHandlerOptions>,
) {
  const sdk = makeSdk();
  onTestFinished(() => sdk.end());
  const lines: string[] = [];
  const log = pino({ level: "debug" }, { write: (line: string) => void lines.push(line) });
  const entries: LogEntry[] = [];
  const printed = (["debug", "info", "warn", "error"] as const).map((level) =>
    vi.spyOn(console, level).mockImplementation(() => {}),
  );
  onTestFinished(() => {
    for (const spy of printed) spy.mockRestore();
  });
  const platform = platformOf();
  platform.booking("HX3K9", "Confirmed");
  const fetch = async (url: string, init: RequestInit) =>
    !("body" in answer) && url.endsWith("/LOST")
      ? new Response("text" in answer ? answer.text : null, answer)
      : platform.fetch(url, init);
  if ("body" in answer) platform.answer("LOST", answer);
  const store = memoryStore();
  const common = {
    client: clientOf({ fetch }, { maxRetries: 0 }),
    store,
    verify: false,
    on: {},
    autoStart: false,
    maxAttempts: 1,
  } as const;
  const webhooks = createWebhookHandler({
    ...common,
    telemetry: telemetry(sdk.instruments),
    logger: ({ level, message, error, ...fields }) => {
      entries.push({ level, message, error, ...fields });
      // The recipe of docs/telemetry.md.
      log[level]({ ...fields, err: error }, message);
      (level === "warn" || level === "error") && console[level](message);
    },
    ...options,
  });
  onTestFinished(() => webhooks.close());
  const eventId = crypto.randomUUID();
  await webhooks.receive(requestOf({ eventId, bookingCode: options.on ? "HX3K9" : "LOST" }));
  await webhooks.drain();
  const event = (await store.get(eventId))!;
  const inbox = createConsole(webhooks, { authorize: () => true });
  const page = async (query: string) =>
    (await inbox.fetch(new Request(`https://ops.example/?${query}`))).text();
  const pages = [await page(`event=${eventId}&personal=1`), await page("state=parked&personal=1")];
  const spans = JSON.stringify(sdk.spans());
  const health = JSON.stringify(await webhooks.health());
  const calls = printed.flatMap(({ mock }) => mock.calls.flat()).map(String);
  return { event, entries, texts: [...lines, ...calls, JSON.stringify(event), ...pages, spans, health] };
}

describe.each(Object.entries(answers))("%s", (_, answer) => {
  test("stands in no log, history, page or trace, if the handler reads the record", async () => {
    const { event, entries, texts } = await written(answer, {});
    expect(event.history.at(-1)?.error ?? "").toMatch(/GET \/v2\/bookings\/LOST was answered with /);
    expect(entries.length).toBeGreaterThan(0);
    for (const text of texts) expect(text).not.toContain(GUEST);
    for (const { error } of entries) expect(String((error as Error | undefined)?.stack)).not.toContain(GUEST);
  });
});

test("nor if a callback reads another record and lets the client's error through, also as a cause", async () => {
  const client = (platform: ReturnType<typeof platformOf>) => clientOf(platform, { maxRetries: 0 });
  const platform = platformOf();
  platform.answer("LOST", answers["a 422 whose message names a guest"]);
  for (const wrap of [false, true]) {
    const { event, texts } = await written(answers["a 422 whose message names a guest"], {
      on: {
        booking: async () => {
          try {
            await client(platform).bookings.get("LOST");
          } catch (error) {
            throw wrap ? new TypeError("the other booking", { cause: error }) : error;
          }
        },
      },
    });
    expect(event).toMatchObject({ state: "parked", reason: "callback" });
    const error = event.history.at(-1)?.error;
    expect(error).toContain("UnprocessableEntityError: GET /v2/bookings/LOST was answered with 422");
    expect(error).not.toContain(GUEST);
    // pino shows the cause of an error of the user's own, which stayhook does not change.
    if (!wrap) for (const text of texts) expect(text).not.toContain(GUEST);
  }
});

test("the error itself still has them, for your code and for observe", async () => {
  const errors: unknown[] = [];
  const answer = answers["a 422 whose message names a guest"];
  const { entries } = await written(answer, {
    observe: (event) => void ("error" in event && errors.push(event.error)),
  });
  expect(errors).toMatchObject([{ status: 422, body: answer.body, message: expect.stringContaining(GUEST) }]);
  const [logged] = entries.flatMap(({ error }) => (error === undefined ? [] : [error]));
  expect(logged).toMatchObject({ name: "UnprocessableEntityError", status: 422, path: "/v2/bookings/LOST" });
  expect(logged).toBeInstanceOf(Error);
});

test("what a pass of the reconciler logs has none", async () => {
  const texts: string[] = [];
  const platform = platformOf();
  const store = memoryStore();
  const webhooks = createWebhookHandler({
    ...{ client: clientOf(platform, { maxRetries: 0 }), store, verify: false, on: {}, autoStart: false },
    logger: ({ message, error }) => void texts.push(message, String((error as Error | undefined)?.stack)),
  });
  onTestFinished(() => webhooks.close());
  platform.booking("LOST", "Confirmed");
  await webhooks.receive(requestOf({ bookingCode: "LOST" }));
  await webhooks.drain();
  platform.answer("LOST", answers["a 422 whose message names a guest"]);
  const reconciler = createReconciler(webhooks);
  await reconciler.run().catch(() => {});
  await reconciler.close();
  for (const text of texts) expect(text).not.toContain(GUEST);
});
