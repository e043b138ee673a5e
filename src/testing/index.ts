export type { SandboxFaults, SandboxRequest } from "../sandbox/api.ts";
export type { SandboxDelivery, SandboxDeliveryControl, SandboxReceiver } from "../sandbox/deliveries.ts";
export type {
  SandboxDeliveryOptions,
  SandboxFault,
  SandboxObservation,
  SandboxOptions,
} from "../sandbox/options.ts";
export type { SandboxWebhookConfig } from "../sandbox/platform.ts";
export { createSandbox, type Sandbox } from "../sandbox/sandbox.ts";
export type { SandboxBooking, SandboxBookingFields, SandboxBookings } from "../sandbox/sandbox-bookings.ts";
export type { SandboxListing, SandboxListingFields, SandboxListings } from "../sandbox/sandbox-listings.ts";
export {
  createTestEvent,
  type TestEvent,
  type TestEventExtras,
  type TestEventType,
} from "./test-event.ts";
