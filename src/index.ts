export type { BookingsResource, ListingsResource } from "./client/client.ts";
export { type CustomOptions, StayhookClient } from "./client/client.ts";
export {
  AbortError,
  AccessTokenError,
  APIError,
  AuthenticationError,
  BadRequestError,
  ConflictError,
  ConnectionError,
  ConnectionTimeoutError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  ResponseValidationError,
  UnprocessableEntityError,
} from "./client/client-errors.ts";
export type {
  AccessToken,
  ClientOptions,
  Fetch,
  HeadersInput,
  ListPage,
  Query,
  RequestObservation,
  RequestOptions,
  RequestTelemetry,
  ResponseObservation,
  TracedRequest,
} from "./client/client-options.ts";
export type { ApiPromise, WithResponse } from "./client/http.ts";
export type {
  ConfigInput,
  EndpointsInput,
  Ensured,
  EnsureInput,
  WebhookConfigResource,
} from "./client/webhook-config.ts";
export { InvalidArgumentError, InvalidWriteError, type Issue, StayhookError } from "./errors.ts";
export { type LocalTimeOptions, localTime } from "./local-time.ts";
export type { ConsoleLike, LogDetails, LogEntry, Logger, LogLevel } from "./logger.ts";
export { type Stay, type StayOptions, stay } from "./models/dates.ts";
export { listingIdOf } from "./models/ids.ts";
export { WebhookNotification } from "./models/notification.ts";
export {
  Booking,
  type BookingStatus,
  bookingStatuses,
  type Endpoints,
  Listing,
  type ListingStatus,
  listingStatuses,
  type Topic,
  topics,
  WebhookConfig,
} from "./models/records.ts";
export type { StandardSchema } from "./models/standard-schema.ts";
export type { DrainOptions, DrainResult } from "./queue/drain.ts";
export type {
  AttemptEndObservation,
  AttemptObservation,
  AttemptResult,
  Backoff,
  DoneObservation,
  FailedObservation,
  ParkedObservation,
  PausedObservation,
  QueueObservation,
  ResumedObservation,
  StartedObservation,
} from "./queue/work.ts";
export type { EventOrigin, EventState, FailureReason } from "./stores/event-states.ts";
export type {
  AttemptEntry,
  ClaimedEvent,
  EventFilter,
  EventStore,
  NewEvent,
  Outcome,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
  SynchronousTransaction,
  TrackedValue,
} from "./stores/event-store.ts";
export type { IntakeStore } from "./stores/forward.ts";
export { forwardTo } from "./stores/forward.ts";
export { type MemoryStoreOptions, memoryStore } from "./stores/memory/index.ts";
export type {
  BookingEvent,
  BookingRequestEvent,
  BookingStatusEvent,
  EventBase,
  FieldChange,
  FieldChanges,
  ListingEvent,
  ListingStatusEvent,
  MessageWebhookEvent,
  PreviousRecord,
  RecordEventBase,
  Transactional,
  UnknownEvent,
  WebhookCallbacks,
  WebhookEvent,
  WebhookEventMap,
} from "./webhooks/events.ts";
export {
  type AvailableHealth,
  createWebhookHandler,
  type FetchContext,
  type ForwardingHandler,
  type Health,
  type ReceiveContext,
  type UnavailableHealth,
  type WebhookHandler,
} from "./webhooks/handler.ts";
export type {
  DriftObservation,
  MissedObservation,
  Observation,
  ReconcilerAlarm,
  SilentObservation,
  Telemetry,
  WaitingEvents,
} from "./webhooks/observability.ts";
export type { WebhookHandlerOptions } from "./webhooks/options.ts";
export { type Processed, ProcessingError, type ProcessOptions } from "./webhooks/processing/process-now.ts";
export type { Track, Tracked } from "./webhooks/processing/record.ts";
export type {
  InvalidObservation,
  ReceivedObservation,
  ReceiveObservation,
  ReceiveResult,
  Refusal,
  RefusedObservation,
} from "./webhooks/receiving/answers.ts";
export type { ReceiveRequest, RequestHeaders, TopicFrom } from "./webhooks/receiving/request.ts";
export type { Verify, VerifyRequest } from "./webhooks/receiving/verify.ts";
export { type SharedSecretOptions, sharedSecret } from "./webhooks/receiving/verify.ts";
