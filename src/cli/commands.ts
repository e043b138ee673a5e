import type { Entry } from "./command.ts";

/** All commands, in the order of the help. */
export const commands: readonly Entry[] = [
  {
    name: "init",
    summary: "make an app from an example of this package",
    load: async () => (await import("./commands/init.ts")).init,
  },
  {
    name: "config",
    summary: "read and change the webhook configuration",
    load: async () => (await import("./commands/config.ts")).config,
  },
  {
    name: "listings",
    summary: "list the account's listings",
    load: async () => (await import("./commands/listings-and-booking.ts")).listings,
  },
  {
    name: "booking",
    summary: "read a booking from the platform",
    load: async () => (await import("./commands/listings-and-booking.ts")).booking,
  },
  {
    name: "trigger",
    summary: "send one notification to an endpoint, as the platform would",
    load: async () => (await import("./commands/trigger.ts")).trigger,
  },
  {
    name: "listen",
    summary: "forward the notifications of a deployed app to a local endpoint",
    load: async () => (await import("./commands/listen.ts")).listen,
  },
  {
    name: "sandbox",
    summary: "run a sandbox of the platform, with commands to change bookings and listings",
    load: async () => (await import("./commands/sandbox.ts")).sandbox,
  },
  {
    name: "events",
    summary: "show, replay, discard and delete recorded events",
    load: async () => (await import("./commands/events.ts")).events,
  },
  {
    name: "erase",
    summary: "delete all data about one booking or listing, or about one account",
    load: async () => (await import("./commands/events/erase.ts")).topLevelErase,
  },
  {
    name: "copy",
    summary: "copy all events and snapshots to another store",
    load: async () => (await import("./commands/copy.ts")).copy,
  },
  {
    name: "console",
    summary: "serve web pages that show, replay, discard and erase events",
    load: async () => (await import("./commands/console.ts")).consoleCommand,
  },
  {
    name: "reconcile",
    summary: "find changes of listings and known bookings for which no notification arrived",
    load: async () => (await import("./commands/reconcile.ts")).reconcile,
  },
  {
    name: "doctor",
    summary: "check the base URL, the token, the clock, the configuration and the endpoints",
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
];
