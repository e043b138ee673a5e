export type { SandboxRequest } from "../sandbox/api.ts";
export type { SandboxReceiver } from "../sandbox/attempt.ts";
export type { SandboxBooking, SandboxBookingFields, SandboxBookings } from "../sandbox/bookings.ts";
export type { SandboxDelivery } from "../sandbox/delivery.ts";
export type { SandboxDeliveryOptions } from "../sandbox/delivery-options.ts";
export type { SandboxFault, SandboxFaults } from "../sandbox/faults.ts";
export type { SandboxListing, SandboxListingFields, SandboxListings } from "../sandbox/listings.ts";
export type { SandboxObservation, SandboxOptions } from "../sandbox/options.ts";
export {
  type SandboxProfile,
  type SandboxProfileControl,
  type SandboxProfileName,
  sandboxProfiles,
} from "../sandbox/profiles.ts";
export { createSandbox, type Sandbox, type SandboxDeliveryControl } from "../sandbox/sandbox.ts";
export type { SandboxWebhookConfig } from "../sandbox/webhook-config.ts";
export { createTestEvent, createTestEventOf } from "./test-event.ts";
export type { TestEvent, TestEventExtras, TestEventType } from "./test-event-types.ts";
