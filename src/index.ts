export type { ApiPromise, WithResponse } from "./client/api-promise.ts";
export type { BookingsResource, CustomOptions, ListingsResource } from "./client/client.ts";
export { StayhookClient } from "./client/client.ts";
export {
  AbortError,
  AccessTokenError,
  APIError,
  type APIErrorInit,
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
  FetchInit,
  FetchResponse,
  HeadersInput,
  ListPage,
  QueryInput,
  QueryPairs,
  QueryValue,
  RequestOptions,
} from "./client/client-options.ts";
export type { HttpMethod } from "./client/http.ts";
export type { Observers, RequestObservation, ResponseObservation } from "./client/observers.ts";
export type { ListPromise } from "./client/paging.ts";
export type { ConfigInput, Ensured, EnsureInput, WebhookConfigResource } from "./client/webhook-config.ts";
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
  WebhookConfig,
} from "./models/records.ts";
export type { StandardIssue, StandardResult, StandardSchema } from "./models/standard-schema.ts";
export { type Topic, topics } from "./models/topics.ts";
export type { DrainOptions, DrainResult } from "./queue/drain.ts";
export type {
  AttemptResult,
  Backoff,
  DoneObservation,
  FailedObservation,
  ParkedObservation,
  PausedObservation,
  PauseScope,
  QueueObservation,
  ResumedObservation,
  StartedObservation,
} from "./queue/work.ts";
export { forwardTo, type IntakeStore } from "./stores/forward.ts";
export { type MemoryStore, type MemoryStoreOptions, memoryStore } from "./stores/memory/index.ts";
export type { ErasedAccount, StoreSchema } from "./stores/store-options.ts";
export type { EndpointUrlOptions } from "./webhooks/endpoint-url.ts";
export type { InAccount, Transactional, WithAccount } from "./webhooks/event-additions.ts";
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
export type {
  AvailableHealth,
  Health,
  PausedAccount,
  PausedAccounts,
  UnavailableHealth,
} from "./webhooks/health.ts";
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
export type { Track } from "./webhooks/processing/record.ts";
export type { RecordContext } from "./webhooks/processing/time-zone.ts";
export type { AccountFrom, AccountRequest } from "./webhooks/receiving/account.ts";
export type { AskedSecrets } from "./webhooks/receiving/account-keys.ts";
export type {
  InvalidObservation,
  ReceivedObservation,
  ReceiveObservation,
  ReceiveResult,
  Refusal,
  RefusedObservation,
} from "./webhooks/receiving/answers.ts";
export type { ReceiveRequest, RequestHeaders, TopicFrom } from "./webhooks/receiving/request.ts";
export {
  type SharedSecretOptions,
  sharedSecret,
  type Verify,
  type VerifyRequest,
} from "./webhooks/receiving/verify.ts";
export type { FetchContext, ReceiveContext } from "./webhooks/request-context.ts";
export {
  type BookingStay,
  type StayBooking,
  type StayChange,
  type StayChangeOptions,
  stayChange,
} from "./webhooks/stay-change.ts";
export type { ReadyReport } from "./webhooks/strays.ts";
export type { FiredTimer } from "./webhooks/timer-rules.ts";
export type { EventTimers, RecordTimers, Timer, TimerOptions } from "./webhooks/timers.ts";
