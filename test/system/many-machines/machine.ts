/** One process of the cluster. It receives notifications or handles events, and logs each action. */
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { flushCompileCache } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { toNodeHandler } from "../../../src/adapters/node.ts";
import { createWebhookHandler, StayhookClient } from "../../../src/index.ts";
import type { EventStore } from "../../../src/stores/index.ts";
import { openPlace } from "../../stores/every/open-place.ts";
import type { WorkerPlace } from "../../stores/every/stores.ts";

export interface MachineOptions {
  readonly role: "web" | "worker";
  readonly place: WorkerPlace;
  /** The file that all machines write to, line by line. */
  readonly log: string;
  /** How far the clock is ahead of the clocks of the other machines, in ms. */
  readonly ahead: number;
  /** In ms. */
  readonly leaseDuration: number;
  /** The duration of a callback, in ms. */
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

// A `DEAF` callback ignores `signal`. It looks at the signal at its end, and logs `late` if the signal has aborted.
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

const { store } = await openPlace(place);
const warned = (message: string) => {
  // The event id helps to explain a failed test.
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
  store: store as EventStore,
  verify: () => true,
  autoStart: false,
  // A recheck would count as one more event.
  recheckAfter: false,
  leaseDuration,
  // PostgreSQL and MariaDB free the locks of a frozen process after 2 s, so allow more than that.
  replyWithin: 10_000,
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

// Node writes the cache of test/support/compile-cache.ts at exit. Write it now, because the test may kill this process.
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
