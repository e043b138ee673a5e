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
export type { ClientOptions } from "./client/client-options.ts";
export type { ListPromise } from "./client/paging.ts";
export type { Ensured, WebhookConfigResource } from "./client/webhook-config.ts";
export { InvalidArgumentError, InvalidWriteError, StayhookError } from "./errors.ts";
export { localTime } from "./local-time.ts";
export type { Logger } from "./logger.ts";
export { type Stay, stay } from "./models/dates.ts";
export { listingIdOf } from "./models/ids.ts";
export { WebhookNotification } from "./models/notification.ts";
export {
  Booking,
  bookingStatuses,
  type Endpoints,
  Listing,
  listingStatuses,
  WebhookConfig,
} from "./models/records.ts";
export { topics } from "./models/topics.ts";
export type { DrainResult } from "./queue/drain.ts";
export type { PauseScope } from "./queue/work.ts";
export type { StoreSchema } from "./stores/event-store.ts";
export { forwardTo, type IntakeStore } from "./stores/forward.ts";
export { type MemoryStore, memoryStore } from "./stores/memory/index.ts";
export type {
  BookingEvent,
  BookingRequestEvent,
  BookingStatusEvent,
  BookingTimerEvent,
  EventOf,
  FieldChanges,
  ListingEvent,
  ListingStatusEvent,
  ListingTimerEvent,
  MessageWebhookEvent,
  PreviousRecord,
  Transactional,
  UnknownEvent,
  WebhookCallbacks,
  WebhookEvent,
} from "./webhooks/events.ts";
export { createWebhookHandler, type ForwardingHandler, type WebhookHandler } from "./webhooks/handler.ts";
export type { Health } from "./webhooks/health.ts";
export type { Observation, Telemetry } from "./webhooks/observability.ts";
export type { WebhookHandlerOptions } from "./webhooks/options.ts";
export { ProcessingError } from "./webhooks/processing/process-now.ts";
export { sharedSecret, type Verify } from "./webhooks/receiving/verify.ts";
export {
  type BookingStay,
  type StayChange,
  type StayChangeOptions,
  stayChange,
} from "./webhooks/stay-change.ts";
export type { EventTimers, RecordTimers, TimerOptions } from "./webhooks/timers.ts";
