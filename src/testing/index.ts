export type { SandboxBooking, SandboxBookingFields, SandboxBookings } from "../sandbox/bookings.ts";
export type { SandboxDelivery } from "../sandbox/delivery.ts";
export type { SandboxListing, SandboxListingFields, SandboxListings } from "../sandbox/listings.ts";
export type { SandboxDeliveryOptions, SandboxOptions } from "../sandbox/options.ts";
export { createSandbox, type Sandbox, type SandboxRequest } from "../sandbox/sandbox.ts";
export type { SandboxWebhookConfig } from "../sandbox/webhook-config.ts";
export { type StoreContractCase, type StoreContractOptions, storeContract } from "./store-contract.ts";
