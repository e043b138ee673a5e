/** One of the processes: takes notifications, or handles events. Writes down all that happens, as it does. */
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { flushCompileCache } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { toNodeHandler } from "../../../src/adapters/node.ts";
import { createWebhookHandler, type EventStore, StayhookClient } from "../../../src/index.ts";
import { openStore, type StorePlace } from "./store-place.ts";

export interface MachineOptions {
  readonly role: "web" | "worker";
  readonly place: StorePlace;
  /** The file that all machines write to, line by line. */
  readonly log: string;
  /** By how much its clock is ahead of the others', ms. */
  readonly ahead: number;
  /** ms */
  readonly leaseDuration: number;
  /** How long a callback takes, ms. */
  readonly work: number;
}

const { role, place, log, ahead, leaseDuration, work }: MachineOptions = JSON.parse(process.argv[2] ?? "");
const say = (...words: readonly unknown[]) => appendFileSync(log, `${[process.pid, ...words].join(" ")}\n`);

const RealDate = Date;
globalThis.Date = class extends RealDate {
  constructor(...given: ConstructorParameters<typeof Date>) {
    if ((given as unknown[]).length === 0) super(RealDate.now() + ahead);
    else super(...given);
  }
  static override now(): number {
    return RealDate.now() + ahead;
  }
} as DateConstructor;

// One that does not listen to `signal` finds out by itself that it is cut off, and says when it has ended.
async function callback(eventId: string, bookingCode: string, signal: AbortSignal): Promise<void> {
  say("began", eventId, bookingCode);
  try {
    if (bookingCode.startsWith("DEAF")) await sleep(work);
    else await sleep(bookingCode.startsWith("LONG") ? 60_000 : work, undefined, { signal });
    say(signal.aborted ? "late" : "ended", eventId, bookingCode);
  } catch (error) {
    say("cut", eventId, bookingCode);
    throw error;
  }
}

const store: EventStore = openStore(place);
const warned = (message: string) => {
  // Of an event, for when a test fails.
  const [eventId = ""] = /[0-9a-f-]{36}/.exec(message) ?? [];
  say("warned", eventId, message.replaceAll(" ", "_"));
};
const logger = { debug() {}, info() {}, warn: warned, error: warned };
const webhooks = createWebhookHandler({
  client: new StayhookClient({
    baseUrl: "https://platform.test",
    accessToken: "token",
    fetch: async (url) =>
      Response.json({ bookingCode: new URL(url).pathname.split("/").at(-1), status: "Confirmed" }),
  }),
  store,
  verify: () => true,
  autoStart: false,
  // Every event is counted.
  recheckAfter: false,
  leaseDuration,
  // On MariaDB the locks of a process that stands still are free after 2 s.
  replyWithin: place.kind === "mysql" ? 10_000 : 2000,
  backoff: () => 200,
  logger,
  observe: (event) => {
    if (event.kind === "done" || event.kind === "failed" || event.kind === "parked")
      say(event.kind, event.eventId, event.ref?.slice("booking:".length));
  },
  on: {
    fallback: (event) => {
      const { bookingCode } = event.notification as { readonly bookingCode: string };
      return callback(event.eventId, bookingCode, event.signal);
    },
  },
});

// A process that is killed would leave nothing in the cache of test/support/compile-cache.ts.
flushCompileCache();
if (role === "web") {
  const server = createServer(toNodeHandler(webhooks));
  server.listen(0, "127.0.0.1", () => process.send?.({ port: (server.address() as { port: number }).port }));
} else {
  webhooks.start();
  process.send?.({});
}
process.on("message", async (message) => {
  if (message === "health") process.send?.({ health: (await webhooks.health()).state });
});
process.on("disconnect", () => process.exit());
