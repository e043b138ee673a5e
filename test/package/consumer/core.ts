// Uses all of "stayhook" as a project on Workers or Deno does, with web types and without Node types.
import {
  AbortError,
  AccessTokenError,
  APIError,
  type ApiPromise,
  AuthenticationError,
  BadRequestError,
  Booking,
  type BookingEvent,
  type BookingRequestEvent,
  type BookingStatusEvent,
  type BookingsResource,
  bookingStatuses,
  type ClientOptions,
  ConflictError,
  ConnectionError,
  ConnectionTimeoutError,
  createWebhookHandler,
  type FieldChanges,
  type ForwardingHandler,
  forwardTo,
  type IntakeStore,
  InternalServerError,
  InvalidArgumentError,
  InvalidWriteError,
  Listing,
  type ListingEvent,
  type ListingStatusEvent,
  type ListingsResource,
  type Logger,
  listingIdOf,
  listingStatuses,
  localTime,
  type MessageWebhookEvent,
  memoryStore,
  NotFoundError,
  type Observation,
  PermissionDeniedError,
  type PreviousRecord,
  ProcessingError,
  RateLimitError,
  ResponseValidationError,
  type Stay,
  StayhookClient,
  StayhookError,
  sharedSecret,
  stay,
  type Transactional,
  topics,
  type UnknownEvent,
  UnprocessableEntityError,
  type Verify,
  type WebhookCallbacks,
  WebhookConfig,
  type WebhookConfigResource,
  type WebhookEvent,
  type WebhookHandler,
  type WebhookHandlerOptions,
  WebhookNotification,
} from "stayhook";
import type {
  ClaimedEvent,
  EventFilter,
  EventOrigin,
  EventState,
  EventStore,
  FailureReason,
  NewEvent,
  Outcome,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
  TrackedValue,
} from "stayhook/store";

// The package exports no name for these types. The functions and the options that use them lead to them.
type LogFunction = Extract<Logger, (...entry: never[]) => unknown>;
type ConsoleLike = Exclude<Logger, LogFunction>;
type LogEntry = Parameters<LogFunction>[0];
type LogLevel = LogEntry["level"];
type LogDetails = Omit<LogEntry, "level" | "message" | "suppressed">;
type Given<K extends keyof ClientOptions> = NonNullable<ClientOptions[K]>;
type AccessToken = Given<"accessToken">;
type Fetch = Given<"fetch">;
type RequestObservation = Parameters<Given<"onRequest">>[0];
type ResponseObservation = Parameters<Given<"onResponse">>[0];
type ListPage = Parameters<Given<"nextPage">>[0];
type RequestOptions = NonNullable<Parameters<BookingsResource["get"]>[1]>;
type HeadersInput = NonNullable<RequestOptions["headers"]>;
type Query = NonNullable<RequestOptions["query"]>;
type CustomOptions = NonNullable<Parameters<StayhookClient["request"]>[2]>;
type ConfigInput = Parameters<WebhookConfigResource["create"]>[0];
type EnsureInput = Parameters<WebhookConfigResource["ensure"]>[0];
type Ensured = Awaited<ReturnType<WebhookConfigResource["ensure"]>>;
type Endpoints = WebhookConfig["endpoints"];
type Topic = (typeof topics)[number];
type WithResponse<T> = Awaited<ReturnType<ApiPromise<T>["withResponse"]>>;
type BookingStatus = (typeof bookingStatuses)[number];
type ListingStatus = (typeof listingStatuses)[number];
type MemoryStoreOptions = NonNullable<Parameters<typeof memoryStore>[0]>;
type StayOptions = NonNullable<Parameters<typeof stay>[1]>;
type LocalTimeOptions = NonNullable<Parameters<typeof localTime>[3]>;
type VerifyRequest = Parameters<Verify>[0];
type SharedSecretOptions = Parameters<typeof sharedSecret>[0];
type Backoff = NonNullable<WebhookHandlerOptions["backoff"]>;
type FieldChange = NonNullable<FieldChanges["status"]>;
type WebhookEventMap = { [E in WebhookEvent as E["type"]]: E };
type Issue = InvalidArgumentError["issues"][number];
type Refusal = Extract<Observation, { kind: "refused" }>["reason"];
type ReceiveRequest = Parameters<WebhookHandler["receive"]>[0];
type RequestHeaders = ReceiveRequest["headers"];
type ReceiveResult = Awaited<ReturnType<WebhookHandler["receive"]>>;
type ReceiveContext = NonNullable<Parameters<WebhookHandler["receive"]>[1]>;
type FetchContext = NonNullable<Parameters<WebhookHandler["fetch"]>[1]>;
type DrainOptions = NonNullable<Parameters<WebhookHandler["drain"]>[0]>;
type DrainResult = Awaited<ReturnType<WebhookHandler["drain"]>>;
type ProcessOptions = NonNullable<Parameters<WebhookHandler["process"]>[1]>;
type Processed = Awaited<ReturnType<WebhookHandler["process"]>>;
type Health = Awaited<ReturnType<WebhookHandler["health"]>>;

declare const maybe: string | undefined;
declare const number: number | undefined;

const lines: ConsoleLike = { debug() {}, info() {}, warn: console.warn, error: console.error };
const levels: LogLevel[] = ["warn", "error"];
const logger: Logger = ({ level, message, suppressed, ...details }: LogEntry) => {
  const { ref }: LogDetails = details;
  if (levels.includes(level)) lines[level](`${message} ${ref} ${suppressed?.toFixed()}`);
};
const accessToken: AccessToken = async ({ reason }) => (reason === "unauthorized" ? "new" : "old");
const fetch: Fetch = (url, init) => globalThis.fetch(url, init);
const headers: HeadersInput = { "x-app": "one", "x-none": maybe };
const query: Query = { page: 1, tags: ["a", "b"], none: undefined };
const onResponse = (info: ResponseObservation): string =>
  info.error === undefined ? `${info.status} in ${info.duration} ms` : info.error.message;
const options: ClientOptions = {
  baseUrl: new URL("https://api.example.com/base"),
  accessToken,
  timeout: number,
  maxRetries: number,
  allowInsecureHttp: undefined,
  models: undefined,
  fetch,
  headers,
  logger: lines,
  onRequest: ({ method, route, path, attempt }: RequestObservation) => [method, route, path, attempt],
  onResponse,
  nextPage: ({ query: asked }: ListPage) => (asked.page === 2 ? undefined : { page: 2 }),
};

export const client = new StayhookClient(options);
export const store: EventStore = memoryStore({} satisfies MemoryStoreOptions);

const each: RequestOptions = {
  signal: AbortSignal.timeout(5),
  timeout: number,
  headers: new Headers(),
  query,
};
const custom: CustomOptions = { ...each, body: { rate: 1 } };
const endpoints: ConfigInput["endpoints"] = {
  bookings: "https://you.example/hooks",
  listings: undefined,
};

export async function useClient(): Promise<void> {
  const config: ConfigInput = { isActive: true, endpoints, otherEndpoints: { newer: "https://you.example" } };
  const created: WebhookConfig | undefined = await client.webhookConfig.create(config, each);
  const kept: Endpoints | undefined = (await client.webhookConfig.update(config))?.endpoints;
  await client.webhookConfig.get();
  await client.webhookConfig.toggle(created?.isActive ?? kept?.bookings === undefined);
  await client.webhookConfig.delete({ signal: undefined });
  const wanted: EnsureInput = { endpoints: { bookings: null, listings: maybe } };
  const { action, config: now }: Ensured = await client.webhookConfig.ensure(wanted);
  action satisfies "created" | "updated" | "unchanged";
  const topic: Topic = topics[0];
  now.endpoints[topic]?.toUpperCase();
  const promise: ApiPromise<Booking> = client.bookings.get("HX3K9");
  const { data, response, body }: WithResponse<Booking> = await promise.withResponse();
  const { checkIn, checkOut, nights }: Stay = stay(data);
  const further: unknown = (data as Booking & Record<string, unknown>).guestName;
  // @ts-expect-error misspelled
  data.chekIn;
  const [first]: Listing[] = await client.listings.list(each);
  const listing: Listing = await client.listings.get(first?.listingId ?? 7);
  const anything: unknown = await client.request("POST", "/v2/rates", custom);
  const schema = {
    "~standard": { version: 1 as const, vendor: "own", validate: () => ({ value: { rate: 1 } }) },
  };
  const { rate } = await client.request("GET", "/v2/rates", { schema });
  console.log(
    response.status,
    body,
    checkIn,
    checkOut,
    nights.toFixed(),
    further,
    listing.status,
    anything,
    rate.toFixed(),
  );
  const zone: StayOptions = { timeZone: maybe };
  stay(data, zone).nights + listingIdOf(data);
  const earlier: LocalTimeOptions = { days: -2, minutes: number };
  const moment: Date = localTime(checkIn, "15:00", "Europe/Lisbon", earlier);
  moment.getTime();
  const bookings: BookingsResource = client.bookings;
  const listings: ListingsResource = client.listings;
  const webhookConfig: WebhookConfigResource = client.webhookConfig;
  console.log(bookings, listings, webhookConfig);
  // @ts-expect-error a code is text
  await client.bookings.get(7);
  // @ts-expect-error it may be undefined
  await client.webhookConfig.get().then((current) => current.isActive);
}

export const verify: Verify = async ({ url, headers: sent, topic, rawBody }: VerifyRequest) =>
  url.includes("key") && sent.get("x-key") === topic && (await rawBody()).byteLength > 0;
const secret: SharedSecretOptions = { query: "key", secret: maybe };
// @ts-expect-error in one place, not two
sharedSecret({ query: "key", header: "x-key", secret: "s" });
const backoff: Backoff = (attempt) => attempt * 1000;

const handlerOptions: WebhookHandlerOptions = {
  client,
  store,
  verify: sharedSecret(secret),
  skipUnchanged: true,
  processing: undefined,
  backoff,
  retention: number,
  observe: (event) => observed(event),
  logger,
  on: {},
};

export const webhooks: WebhookHandler = createWebhookHandler({
  ...handlerOptions,
  on: {
    "booking.Request": async ({ booking, decideBy, status, signal }) => {
      status satisfies "Request";
      booking.status satisfies "Request";
      decideBy?.toISOString();
      await client.bookings.get(booking.bookingCode, { signal });
    },
    "booking.Confirmed": (event: BookingEvent<"Confirmed">) => {
      // @ts-expect-error only a request is to be decided
      event.decideBy;
      // @ts-expect-error this store has no transactions
      event.atomically;
      return stay(event.booking).nights;
    },
    "listing.Published": ({ listing, previous, changed }: ListingEvent<"Published">) =>
      changed && previous?.status.length === listing.listingId,
    "listing.Hidden": hidden,
    message: ({ topic, notification }: MessageWebhookEvent) => topic === notification?.eventId,
    unknown: ({ notification }: UnknownEvent) => notification?.eventId,
    fallback: (event) => name(event),
  },
});

// @ts-expect-error misspelled
createWebhookHandler({ client, store, on: { "booking.Confirmd": () => {} } });
// @ts-expect-error forgetting must be chosen
createWebhookHandler({ client, on: {} });
export const callbacks: WebhookCallbacks = { fallback: undefined };

function hidden(event: ListingStatusEvent<"Hidden">): string {
  const base: WebhookEvent = event;
  const of: ListingEvent = event;
  const source: EventOrigin = base.source;
  const changes: FieldChanges = of.changes;
  const { from, to }: FieldChange = changes.listingName ?? { from: undefined, to: null };
  const previous: PreviousRecord | undefined = of.previous;
  const before: TrackedValue | undefined = previous?.listingName;
  return `${source} ${String(from)} ${String(to)} ${String(before)}`;
}
export const decide = ({ decideBy }: BookingRequestEvent): number | undefined => decideBy?.getTime();
export const sell = ({ atomically }: BookingStatusEvent<"Confirmed"> & Transactional<string[]>): void =>
  atomically((sold) => sold.push("HX3K9"));
export type Types = keyof WebhookEventMap;

function name(event: WebhookEvent): string {
  if (event.timer) return event.timer.name;
  switch (event.type) {
    case "booking.Initiated":
    case "booking.Request":
    case "booking.Confirmed":
    case "booking.Declined":
    case "booking.Cancelled":
    case "booking.unknown":
      return event.booking.bookingCode;
    case "listing.InReview":
    case "listing.Published":
    case "listing.Hidden":
    case "listing.unknown":
      return event.listing.listingId.toFixed();
    case "message":
    case "unknown":
      return event.eventId;
    default:
      return event satisfies never;
  }
}

function observed(event: Observation): string | number | undefined {
  switch (event.kind) {
    case "received":
    case "duplicate":
      return event.eventId;
    case "invalid":
      return event.issues.map(({ path, message }: Issue) => `${path.join(".")} ${message}`).join();
    case "refused":
      return event.reason satisfies Refusal;
    case "started":
      return event.receivedAt.toISOString();
    case "done":
      return event.duration;
    case "failed":
      return event.retryIn;
    case "parked":
      return event.reason satisfies FailureReason;
    case "paused":
      return event.wait;
    case "resumed":
    case "silent":
    case "drift":
      return event.kind;
    case "missed":
      return event.changes.status?.to?.toString();
    default:
      return event satisfies never;
  }
}

export async function useHandler(request: Request): Promise<Response> {
  const context: FetchContext = { topic: "bookings", waitUntil: (promise) => void promise.then() };
  const received: ReceiveRequest = { method: "POST", url: "/", headers: request.headers, body: request.body };
  const sent: RequestHeaders = {
    "content-type": "application/json",
    "x-many": ["a", "b"],
    "x-none": undefined,
  };
  const within: ReceiveContext = { waitUntil: undefined };
  const result: ReceiveResult = await webhooks.receive({ ...received, headers: sent, topic: maybe }, within);
  const limits: DrainOptions = { timeout: number, signal: request.signal };
  const { done, failed }: DrainResult = await webhooks.drain(limits);
  const { state, counts, oldestWaitingAge, lastReceivedAt }: Health = await webhooks.health();
  console.log(
    result.status,
    done + failed,
    state,
    counts?.parked,
    oldestWaitingAge?.toFixed(),
    lastReceivedAt?.getTime(),
  );
  webhooks.start();
  await webhooks.close({ timeout: number });
  return webhooks.fetch(request, context);
}

export function explain(error: unknown): string | number | undefined {
  if (error instanceof RateLimitError) return error.retryAfter;
  if (error instanceof APIError) return `${error.status} ${error.method} ${error.path} ${error.requestId}`;
  if (error instanceof ResponseValidationError || error instanceof InvalidArgumentError)
    return error.issues[0]?.message;
  if (error instanceof ConnectionTimeoutError || error instanceof ConnectionError) return error.name;
  if (error instanceof AbortError || error instanceof AccessTokenError) return String(error.cause);
  if (error instanceof ProcessingError) return error.retryable ? error.retryAfter : error.reason;
  if (error instanceof InvalidWriteError) return error.message;
  return error instanceof StayhookError ? error.message : undefined;
}

export const classes: readonly (typeof APIError)[] = [
  BadRequestError,
  AuthenticationError,
  PermissionDeniedError,
  NotFoundError,
  ConflictError,
  UnprocessableEntityError,
  RateLimitError,
  InternalServerError,
];

/** Uses the user's own queue: one side receives notifications, the other side processes them. */
export async function useEngine(send: (event: NewEvent) => Promise<void>, taken: string): Promise<Processed> {
  const intake: IntakeStore = forwardTo(send);
  const engine: ForwardingHandler = createWebhookHandler({
    client,
    store: intake,
    on: { fallback: ({ attempt }) => attempt },
  });
  const how: ProcessOptions = { attempt: number, signal: undefined };
  return engine.process(taken, how);
}

export async function useStore(
  event: NewEvent,
): Promise<readonly (StoredEvent | RecordSnapshot | undefined)[]> {
  await store.add(event);
  const [claim]: ClaimedEvent[] = await store.claim({ limit: 1, leaseDuration: 1000, eventId: maybe });
  const snapshot: Snapshot = { status: "Confirmed", fields: { nights: 3 } };
  const entry = { duration: 7 };
  const outcome: Outcome = { state: "done", type: "unknown", entry, record: { snapshot, changed: true } };
  if (claim) await store.settle(claim, outcome);
  const states: EventState[] = ["pending", "done"];
  const lists = await Promise.all(states.map((state) => store.list({ state, limit: 10, after: maybe })));
  const parked: EventFilter = { state: "parked", receivedAfter: new Date(0) };
  await store.discard(parked);
  return [...lists.flat(), await store.snapshotOf("booking:HX3K9")];
}

const statuses: readonly (BookingStatus | ListingStatus)[] = [...bookingStatuses, ...listingStatuses];
export const parsed = [
  Booking.parse({ bookingCode: "HX3K9", status: statuses[0] }).bookingCode.length,
  Listing.parse({}).listingId.toFixed(),
  WebhookNotification.parse({}).eventId.length,
  WebhookConfig.parse({}).isActive,
];
