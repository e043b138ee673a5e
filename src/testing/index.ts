export type { SandboxRequest } from "../sandbox/api.ts";
export type { SandboxBooking, SandboxBookingFields, SandboxBookings } from "../sandbox/bookings.ts";
export type { SandboxDelivery, SandboxDeliveryControl, SandboxReceiver } from "../sandbox/deliveries.ts";
export type { SandboxFaults } from "../sandbox/faults.ts";
export type { SandboxListing, SandboxListingFields, SandboxListings } from "../sandbox/listings.ts";
export type {
  SandboxDeliveryOptions,
  SandboxFault,
  SandboxObservation,
  SandboxOptions,
} from "../sandbox/options.ts";
export type { SandboxWebhookConfig } from "../sandbox/platform.ts";
export { createSandbox, type Sandbox } from "../sandbox/sandbox.ts";
export { createTestEvent, createTestEventOf } from "./test-event.ts";
export type { TestEvent, TestEventExtras, TestEventType } from "./test-event-types.ts";
