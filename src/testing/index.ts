export type { SandboxWait } from "../sandbox/checks.ts";
export { createSandbox } from "../sandbox/create-sandbox.ts";
export type { SandboxDeliveryControl, SandboxReceiver } from "../sandbox/deliveries.ts";
export type { SandboxFault, SandboxFaults } from "../sandbox/faults.ts";
export type { SandboxDelivery, SandboxObservation, SandboxRequest } from "../sandbox/observations.ts";
export type { SandboxDeliveryOptions, SandboxOptions } from "../sandbox/options.ts";
export type { SandboxWebhookConfig } from "../sandbox/platform.ts";
export type { Sandbox, SandboxAccount } from "../sandbox/sandbox.ts";
export type { SandboxBooking, SandboxBookingFields, SandboxBookings } from "../sandbox/sandbox-bookings.ts";
export type { SandboxListing, SandboxListingFields, SandboxListings } from "../sandbox/sandbox-listings.ts";
export { createTestEvent } from "./test-event.ts";
export type {
  BookingEventType,
  ListingEventType,
  TestAccount,
  TestBookingFields,
  TestEvent,
  TestEventExtras,
  TestEventFields,
  TestEventType,
  TestListingFields,
  TestRecordFields,
  TestTimerFields,
  TimerEventType,
} from "./test-event-types.ts";
