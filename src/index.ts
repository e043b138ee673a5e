export type { ApiPromise, WithResponse } from "./client/api-promise.ts";
export type { BookingsResource, ListingsResource } from "./client/client.ts";
export { StayhookClient } from "./client/client.ts";
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
export type { AccessToken, ClientOptions, Fetch, ListPage, RequestOptions } from "./client/client-options.ts";
export type { Observers } from "./client/observers.ts";
export type { ListPromise } from "./client/paging.ts";
export type { EnsureInput, WebhookConfigResource } from "./client/webhook-config.ts";
export { InvalidArgumentError, InvalidWriteError, type Issue, StayhookError } from "./errors.ts";
export { localTime } from "./local-time.ts";
export type { LogEntry, Logger, LogLevel } from "./logger.ts";
export type { BookingStay } from "./models/booking-stay.ts";
export { type Stay, stay } from "./models/dates.ts";
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
  WebhookConfig,
} from "./models/records.ts";
export type { StandardSchema } from "./models/standard-schema.ts";
export { type Topic, topics } from "./models/topics.ts";
export type { DrainResult } from "./queue/drain.ts";
export type { Backoff, PauseScope } from "./queue/work.ts";
export type { Json, Stays } from "./stays/stays.ts";
export { forwardTo, type IntakeStore } from "./stores/forward.ts";
export { type MemoryStore, type MemoryStoreOptions, memoryStore } from "./stores/memory/index.ts";
export type { ErasedAccount } from "./stores/store-options.ts";
export type { Transactional, WithAccount } from "./webhooks/event-additions.ts";
export type { EventOf } from "./webhooks/event-of.ts";
export type {
  BookingEvent,
  BookingGoneEvent,
  BookingRequestEvent,
  BookingStatusEvent,
  BookingTimerEvent,
  ListingEvent,
  ListingGoneEvent,
  ListingStatusEvent,
  ListingTimerEvent,
  MessageWebhookEvent,
  UnknownEvent,
  WebhookCallbacks,
  WebhookEvent,
} from "./webhooks/events.ts";
export type { FieldChange, FieldChanges, PreviousRecord } from "./webhooks/field-changes.ts";
export { createWebhookHandler, type ForwardingHandler, type WebhookHandler } from "./webhooks/handler.ts";
export type { Health } from "./webhooks/health.ts";
export type { Observation, Telemetry } from "./webhooks/observability.ts";
export type { WebhookHandlerOptions } from "./webhooks/options.ts";
export { type Processed, ProcessingError, type ProcessOptions } from "./webhooks/processing/process-now.ts";
export type { BookingContext, Track } from "./webhooks/processing/snapshots.ts";
export type { AccountFrom } from "./webhooks/receiving/account.ts";
export type { ReceiveResult } from "./webhooks/receiving/answers.ts";
export type { ReceiveRequest, RequestHeaders } from "./webhooks/receiving/request.ts";
export {
  type SharedSecretOptions,
  sharedSecret,
  type Verify,
  type VerifyRequest,
} from "./webhooks/receiving/verify.ts";
export type { FetchContext, ReceiveContext } from "./webhooks/request-context.ts";
export type { StayChange } from "./webhooks/stay-change.ts";
export type { FiredTimer } from "./webhooks/timer-rules.ts";
export type { EventTimers, RecordTimers, Timer, TimerOptions } from "./webhooks/timers.ts";
