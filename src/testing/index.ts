export { createSandbox } from "../sandbox/create-sandbox.ts";
export type { SandboxFault, SandboxFaults } from "../sandbox/faults.ts";
export type { SandboxDelivery, SandboxObservation, SandboxRequest } from "../sandbox/observations.ts";
export type { SandboxOptions } from "../sandbox/options.ts";
export type { Sandbox, SandboxAccount } from "../sandbox/sandbox.ts";
export type { SandboxBooking, SandboxBookingFields, SandboxBookings } from "../sandbox/sandbox-bookings.ts";
export type { SandboxListing, SandboxListingFields, SandboxListings } from "../sandbox/sandbox-listings.ts";
export { createTestEvent } from "./test-event.ts";
export type { TestEvent } from "./test-event-types.ts";
