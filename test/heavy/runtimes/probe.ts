// Runs on every runtime in both module formats, so it must not use Node modules, a test framework or a server.
import {
  AbortError,
  AccessTokenError,
  APIError,
  ConnectionError,
  ConnectionTimeoutError,
  createWebhookHandler,
  InvalidArgumentError,
  localTime,
  memoryStore,
  NotFoundError,
  ProcessingError,
  ResponseValidationError,
  StayhookClient,
  StayhookError,
  sharedSecret,
  stay,
  type WebhookHandler,
  type WebhookHandlerOptions,
} from "stayhook";
import type { EventStore } from "stayhook/store";

export interface ProbeOptions {
  readonly baseUrl: string;
  readonly accessToken: string;
  /** URL of a platform that fails in many ways: see `whimsical-platform.ts`. */
  readonly whims: string;
}

/** Runs all probes. Returns the results of the runtime, to be compared with the expected results. */
export async function probe(options: ProbeOptions) {
  return {
    client: await probeClient(options),
    failures: await probeFailures(options),
    stays: [stay({ checkIn: "2026-05-01", checkOut: "2026-05-04" }).nights, problemOf(() => stay({}))],
    // In winter, Deno writes the offset of Lisbon as `GMT`, and other runtimes write `GMT+00:00`.
    localTimes: ["2026-01-01", "2026-07-01"].map((day) => localTime(day, "15:00", "Europe/Lisbon").toJSON()),
    answers: await probeAnswers(options),
    once: await probeOnce(options),
    retried: await probeRetries(options),
    drained: await probeDrain(options),
    waitedUntil: await probeWaitUntil(options),
    inline: await probeInline(options),
    rechecked: await probeRecheck(options),
    closed: await probeClose(options),
    process: await probeProcess(options),
  };
}

async function probeClient({ baseUrl, accessToken }: ProbeOptions) {
  const seen: string[] = [];
  const client = new StayhookClient({
    baseUrl,
    accessToken: async () => accessToken,
    onRequest: ({ method, route }) => seen.push(`${method} ${route}`),
    onResponse: ({ status, duration }) => seen.push(`${status} ${duration >= 0}`),
  });
  const endpoints = { listings: "http://127.0.0.1:9/hooks" };
  const listings = await client.listings.list();
  const { data, response } = await client.bookings.get("HX3K9").withResponse();
  return {
    listings: listings.map(({ listingId, status }) => [listingId, status]),
    listing: (await client.listings.get(listings[0]!.listingId)).listingName,
    booking: [data.bookingCode, data.status, response.status, response.headers.has("x-request-id")],
    missing: await errorOf(client.bookings.get("NO/../NE")),
    ensured: [
      (await client.webhookConfig.ensure({ endpoints })).action,
      (await client.webhookConfig.ensure({ endpoints })).action,
    ],
    toggled: (await client.webhookConfig.toggle(false))?.isActive,
    deleted: [await client.webhookConfig.delete(), await client.webhookConfig.get()].map(String),
    seen: seen.slice(0, 6),
  };
}

async function probeFailures({ whims, accessToken }: ProbeOptions) {
  let tokens = 0;
  const settings = { baseUrl: whims, maxRetries: 1, timeout: 20_000 };
  const client = new StayhookClient({ ...settings, accessToken });
  const refreshing = new StayhookClient({
    ...settings,
    accessToken: ({ reason }) => `${accessToken}-${reason}-${++tokens}`,
  });
  const abort = new AbortController();
  const aborted = errorOf(client.bookings.get("SILENT", { signal: abort.signal }));
  setTimeout(() => abort.abort(new Error("enough")), 50);
  return {
    once503: (await client.bookings.get("ONCE503")).status,
    once429: (await client.bookings.get("ONCE429")).status,
    cut: await errorOf(client.bookings.get("CUT")),
    always500: await errorOf(client.bookings.get("ALWAYS500")),
    redirected: (await client.bookings.get("MOVED")).status,
    refreshed: [(await refreshing.bookings.get("REFRESH")).status, tokens],
    writeRedirected: await errorOf(client.request("PUT", "/v2/elsewhere", { body: { a: 1 } })),
    silent: await errorOf(client.bookings.get("SILENT", { timeout: 100, maxRetries: 0 })),
    aborted: await aborted,
    timeoutSignal: await errorOf(client.bookings.get("SILENT", { signal: AbortSignal.timeout(50) })),
    noRecord: await errorOf(client.bookings.get("NORECORD")),
    noJson: await errorOf(client.listings.list()),
    refusedPort: await errorOf(
      new StayhookClient({ baseUrl: "http://127.0.0.1:1", accessToken, maxRetries: 0 }).listings.list(),
    ),
    noToken: await errorOf(
      new StayhookClient({
        ...settings,
        accessToken: () => {
          throw new Error("vault");
        },
      }).listings.list(),
    ),
    echo: await client.request("POST", "/v2/echo", { body: { text: "Zoë 🏡" }, query: { a: ["1", "2"] } }),
    badOptions: problemOf(() => new StayhookClient({ baseUrl: "http://api.example.com", accessToken })),
  };
}

const classes = {
  AbortError,
  AccessTokenError,
  APIError,
  ConnectionError,
  ConnectionTimeoutError,
  InvalidArgumentError,
  NotFoundError,
  ProcessingError,
  ResponseValidationError,
  StayhookError,
};

/** Returns the name of the error, its classes, and other relevant properties. */
function described(error: unknown) {
  if (!(error instanceof Error)) return { thrown: String(error) };
  const of = Object.entries(classes).flatMap(([name, one]) => (error instanceof one ? [name] : []));
  const shown = `${error.message} ${error.stack} ${JSON.stringify(error)}`;
  return {
    name: error.name,
    of,
    ...(error instanceof APIError && { status: error.status }),
    ...(error instanceof InvalidArgumentError && { issues: error.issues.map(({ path }) => path.join(".")) }),
    ...(/s3cret-token/.test(shown) && { leaked: true }),
  };
}

const errorOf = (promise: PromiseLike<unknown>) =>
  Promise.resolve(promise).then((value) => ({ resolved: value }), described);

function problemOf(run: () => unknown) {
  try {
    return { returned: run() };
  } catch (error) {
    return described(error);
  }
}

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** Makes a handler whose callbacks log their calls. */
function handlerOf(
  { baseUrl, accessToken }: ProbeOptions,
  options: Partial<WebhookHandlerOptions> & { readonly store?: EventStore } = {},
) {
  const calls: string[] = [];
  const changes = new Set<() => void>();
  const webhooks = createWebhookHandler({
    client: new StayhookClient({ baseUrl, accessToken }),
    store: memoryStore(),
    logger: quiet,
    on: { fallback: ({ type, attempt }) => void calls.push(`${type} ${attempt}`) },
    observe: () => {
      for (const change of [...changes]) change();
    },
    ...options,
  });
  /** Resolves when `count` callbacks have run and no work is left. */
  async function ran(count: number, allDone = true): Promise<void> {
    for (;;) {
      const changed = new Promise<void>((resolve) => changes.add(resolve));
      const { counts } = await webhooks.health();
      const waiting = counts ? counts.pending + counts.processing + counts.retrying : 1;
      if (calls.length >= count && !(allDone && waiting > 0)) return;
      await changed;
    }
  }
  return { webhooks, calls, ran };
}

const CONFIRMED = "0d4fd8a6-35a5-4f0c-9b0e-4a6c1d2e3f40";
const PUBLISHED = "1d4fd8a6-35a5-4f0c-9b0e-4a6c1d2e3f41";
const timestamp = "2026-05-01T12:00:00Z";
const confirmed = { eventId: CONFIRMED, timestamp, bookingCode: "HX3K9", listingId: null };
const published = { eventId: PUBLISHED, timestamp, bookingCode: null, listingId: 101 };

const post = (body: BodyInit, url = "https://you.example/hooks", headers: HeadersInit = {}) =>
  new Request(url, { method: "POST", body, headers, duplex: "half" } as RequestInit);

function streamOf(...chunks: readonly string[]): ReadableStream<Uint8Array> {
  const left = chunks.map((chunk) => new TextEncoder().encode(chunk));
  return new ReadableStream({
    pull(controller) {
      const next = left.shift();
      if (next === undefined) controller.close();
      else controller.enqueue(next);
    },
  });
}

/** Makes a body that stalls. A timer detects the stall, so this tests the timers of the runtime. */
const stalling = (): ReadableStream<Uint8Array> =>
  new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode("{")) });

async function probeAnswers(options: ProbeOptions) {
  const secrets = ["old", "new"];
  const { webhooks } = handlerOf(options, {
    autoStart: false,
    replyWithin: 3_000,
    verify: sharedSecret({ query: "key", secret: secrets }),
  });
  const url = "https://you.example/hooks?key=new";
  const text = JSON.stringify(confirmed);
  const status = async (request: Request) => (await webhooks.fetch(request)).status;
  const refused = await webhooks.fetch(post('{"eventId":"no"}', url));
  const byHeader = handlerOf(options, {
    autoStart: false,
    verify: sharedSecret({ header: "x-key", secret: "s" }),
  });
  const byPath = handlerOf(options, {
    autoStart: false,
    verify: async ({ rawBody, url: where }) => where.endsWith("/s") && (await rawBody()).length > 0,
  });
  return {
    first: await status(post(text, url)),
    again: await status(
      post(
        text
          .toUpperCase()
          .replace("NULL", "null")
          .replace(/"[A-Z]+":/g, lowerKey),
        url,
      ),
    ),
    streamed: await status(post(streamOf(text.slice(0, 20), text.slice(20)), url)),
    object: (await webhooks.receive({ method: "POST", url, headers: {}, body: published })).status,
    otherSecret: await status(post(text, "https://you.example/hooks?key=old")),
    wrongSecret: await status(post(text, "https://you.example/hooks?key=nex")),
    noSecret: await status(post(text)),
    header: (await byHeader.webhooks.fetch(post(text, undefined, { "x-key": "s" }))).status,
    wrongHeader: (await byHeader.webhooks.fetch(post(text, undefined, { "x-key": "t" }))).status,
    rawBody: (await byPath.webhooks.fetch(post(text, "https://you.example/s"))).status,
    get: await status(new Request(url)),
    noJson: await status(post("no", url)),
    fields: [
      refused.status,
      refused.headers.get("content-type"),
      Object.keys(await refused.json()).length > 0,
    ],
    tooLarge: await status(post(streamOf(...Array(70).fill("x".repeat(1000))), url)),
    stalled: await status(post(stalling(), url)),
    counts: (await webhooks.health()).counts,
    badSecret: problemOf(() => sharedSecret({ query: "key", secret: undefined })),
  };
}

const lowerKey = (key: string) =>
  key
    .toLowerCase()
    .replace("eventid", "eventId")
    .replace("bookingcode", "bookingCode")
    .replace("listingid", "listingId");

/** Sends each event twice and expects one callback each, with `start()` and with automatic processing. */
async function probeOnce(options: ProbeOptions) {
  const store = memoryStore();
  const { webhooks, calls, ran } = handlerOf(options, { store });
  const before = (await webhooks.health()).state;
  webhooks.start();
  const events = [confirmed, published, confirmed, published];
  const answers = await Promise.all(events.map((event) => webhooks.fetch(post(JSON.stringify(event)))));
  await ran(2);
  const { state, counts, lastReceivedAt } = await webhooks.health();
  await webhooks.close();
  const kept = await store.get(CONFIRMED);
  return {
    before,
    answers: answers.map(({ status }) => status),
    calls: calls.sort(),
    state,
    counts,
    received: lastReceivedAt instanceof Date,
    kept: [kept?.state, kept?.type, kept?.attempts],
    status: (await store.snapshotOf("booking:HX3K9"))?.snapshot.status,
  };
}

async function probeRetries(options: ProbeOptions) {
  let failures = 2;
  const calls: string[] = [];
  const { webhooks, ran } = handlerOf(options, {
    backoff: () => 20,
    attemptTimeout: 20_000,
    on: {
      "booking.Confirmed": ({ attempt, booking, signal }) => {
        calls.push(`${booking.bookingCode} ${attempt} ${signal.aborted}`);
        if (failures-- > 0) throw new Error("not now");
      },
    },
  });
  await webhooks.fetch(post(JSON.stringify(confirmed)));
  await ran(0);
  await webhooks.close();
  return calls;
}

async function probeDrain(options: ProbeOptions) {
  const { webhooks, calls } = handlerOf(options, { autoStart: false });
  await webhooks.fetch(post(JSON.stringify(confirmed)));
  await webhooks.fetch(post(JSON.stringify({ ...published, eventId: crypto.randomUUID() })));
  await webhooks.fetch(
    post(JSON.stringify({ ...confirmed, eventId: crypto.randomUUID(), bookingCode: "NONE1" })),
  );
  const before = calls.length;
  const drained = await webhooks.drain({ timeout: 20_000 });
  return { before, drained, again: await webhooks.drain(), calls: calls.sort() };
}

async function probeWaitUntil(options: ProbeOptions) {
  const { webhooks, calls } = handlerOf(options);
  const promises: Promise<unknown>[] = [];
  const { status } = await webhooks.fetch(post(JSON.stringify(confirmed)), {
    waitUntil: (promise) => void promises.push(promise),
  });
  const { state } = await webhooks.health();
  await Promise.all(promises);
  return { status, state, promises: promises.length, calls };
}

async function probeInline(options: ProbeOptions) {
  const { webhooks, calls } = handlerOf(options, { processing: "inline" });
  const { status } = await webhooks.fetch(post(JSON.stringify(confirmed)));
  return { status, calls };
}

/** Sends two events. The second finds its record unchanged, so the handler reads the record once more later. */
async function probeRecheck(options: ProbeOptions) {
  const store = memoryStore();
  const { webhooks } = handlerOf(options, { store, autoStart: false });
  await webhooks.fetch(post(JSON.stringify(confirmed)));
  await webhooks.fetch(post(JSON.stringify({ ...confirmed, eventId: crypto.randomUUID() })));
  const drained = await webhooks.drain({ timeout: 20_000 });
  const kept = await store.list({ limit: 10 });
  return {
    drained,
    kept: kept.map(({ source, state, eventId }) => `${source} ${state} v${eventId[14]}`).sort(),
  };
}

/**
 * Closes a handler during a callback. If the callback gives up, its event is pending again and the attempt does not
 * count. If the callback returns, its event is done.
 */
async function probeClose(options: ProbeOptions) {
  const heard: string[] = [];
  const store = memoryStore();
  let started = 0;
  let begun = () => {};
  const running = new Promise<void>((resolve) => {
    begun = resolve;
  });
  async function untilAborted({ signal }: { readonly signal: AbortSignal }) {
    await new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => resolve());
      started += 1;
      if (started === 2) begun();
    });
    heard.push((signal.reason as Error).name);
  }
  const { webhooks } = handlerOf(options, {
    store,
    on: {
      "booking.Confirmed": async (event) => {
        await untilAborted(event);
        throw event.signal.reason;
      },
      "listing.Published": untilAborted,
    },
  });
  await webhooks.fetch(post(JSON.stringify(confirmed)));
  await webhooks.fetch(post(JSON.stringify(published)));
  await running;
  await webhooks.close({ timeout: 20 });
  const late = await webhooks.fetch(post(JSON.stringify(published)));
  const ends = await Promise.all([CONFIRMED, PUBLISHED].map((eventId) => store.get(eventId)));
  return {
    heard,
    late: [late.status, late.headers.has("retry-after")],
    state: (await webhooks.health()).state,
    ends: ends.map((event) => [event?.state, event?.attempts]),
  };
}

async function probeProcess(options: ProbeOptions) {
  const { webhooks, calls } = handlerOf(options);
  const done: Awaited<ReturnType<WebhookHandler["process"]>> = await webhooks.process(confirmed, {
    attempt: 3,
  });
  const missing = await errorOf(webhooks.process({ ...confirmed, bookingCode: "NONE1" }));
  return { type: done.type, calls, missing };
}
