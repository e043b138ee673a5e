import type { StayhookClient } from "../client/client.ts";
import { InvalidArgumentError, type Issue } from "../errors.ts";
import { consoleLogger, isLogger, type Logger, safeLogger } from "../logger.ts";
import type { Booking } from "../models/booking.ts";
import type { Listing } from "../models/listing.ts";
import { type Backoff, safeBackoff } from "../queue/backoff.ts";
import { MAX_TIMER } from "../queue/timer.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { WebhookHandler } from "../webhooks/handler.ts";
import { type Inside, insideOf } from "../webhooks/inside.ts";
import { safeObserve } from "../webhooks/observe.ts";
import { isObject } from "../webhooks/options.ts";
import { parseDuration } from "./duration.ts";
import type { ReconcileObservation } from "./report.ts";

/** Options of {@link createReconciler}. */
export interface ReconcilerOptions<Tx = never> {
  /** Reads the listings and bookings. */
  readonly client: StayhookClient<Booking, Listing>;
  /** Its callbacks are run for what has changed. With callbacks that are not the real ones, make it with `autoStart: false`: another process then runs them. */
  readonly webhooks: WebhookHandler;
  /** The handler's store. Not `forwardTo(...)`: there are no statuses in it to compare with. */
  readonly store: EventStore<Tx>;
  /** How often `start()` makes a pass, counted over all machines on the store: ms, or `"90s"`, `"30m"`, `"24h"`, `"7d"`. At most half the handler's `recordRetention`. Default `"24h"`. */
  readonly every?: number | string | undefined;
  /** Bookings that are read at once. Default 4. */
  readonly concurrency?: number | undefined;
  /** Whether listings that were never handled are only learned on the first pass, without a callback. Default `true`. */
  readonly baseline?: boolean | undefined;
  /** ms before a read that found the platform out of reach is made again, after so many in a row. Default 1 s, doubled up to 30 s, each up to a quarter shorter. */
  readonly backoff?: Backoff | undefined;
  /** How long after the end of its process a pass keeps others off, ms. Default 60,000. */
  readonly leaseDuration?: number | undefined;
  /** Told of all that happens. What it throws is logged, and changes nothing. */
  readonly observe?: ((event: ReconcileObservation) => unknown) | undefined;
  /** Default: warnings and errors to the console. */
  readonly logger?: Logger | undefined;
}

/** {@link ReconcilerOptions}, checked, with defaults. */
export interface Settings {
  readonly client: StayhookClient<Booking, Listing>;
  readonly store: EventStore<unknown>;
  readonly inside: Inside;
  /** ms */
  readonly every: number;
  readonly concurrency: number;
  readonly baseline: boolean;
  readonly backoff: Backoff;
  readonly leaseDuration: number;
  /** Does not throw. */
  readonly observe: (event: ReconcileObservation) => void;
  readonly logger: Logger;
}

const DAY = 24 * 60 * 60_000;

const NAMES = [
  "client",
  "webhooks",
  "store",
  "every",
  "concurrency",
  "baseline",
  "backoff",
  "leaseDuration",
  "observe",
  "logger",
];

/** @throws InvalidArgumentError naming each option that is wrong */
export function checkOptions<Tx>(options: ReconcilerOptions<Tx>): Settings {
  if (!isObject(options)) throw new InvalidArgumentError({ path: [], message: "options must be an object" });
  const issues: Issue[] = [];
  const refuse = (name: string, message: string) => issues.push({ path: [name], message });
  checkParts(options, refuse);
  checkRest(options, refuse);
  const { concurrency = 4, leaseDuration = 60_000, baseline = true } = options;
  const every = parseDuration(options.every ?? DAY);
  if (every === undefined)
    refuse("every", 'must be a number of ms above 0, or a duration such as "90s", "30m", "24h" or "7d"');
  if (!(Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= 1000))
    refuse("concurrency", "must be a whole number from 1 to 1000");
  if (!(typeof leaseDuration === "number" && leaseDuration >= 10 && leaseDuration <= MAX_TIMER))
    refuse("leaseDuration", `must be a number from 10 to ${MAX_TIMER}`);
  if (issues.length > 0) throw new InvalidArgumentError(issues);

  const logger = safeLogger(options.logger ?? consoleLogger);
  for (const name of Object.keys(options))
    if (!NAMES.includes(name)) logger.warn(`stayhook: createReconciler has no option ${name}`);
  const inside = insideOf(options.webhooks)!;
  // What has not changed is kept from being forgotten by the pass that finds it half as old.
  if (every! > inside.recordRetention / 2)
    logger.warn(
      `stayhook: a record's status is forgotten after ${inside.recordRetention} ms (the handler's recordRetention), which a reconciler can prevent only with passes that are at most half as long apart: every is ${every} ms`,
    );
  return {
    client: options.client,
    store: options.store as EventStore<unknown>,
    inside,
    every: every!,
    concurrency,
    baseline,
    backoff: options.backoff ? safeBackoff(options.backoff) : defaultBackoff,
    leaseDuration,
    observe: safeObserve(options.observe, logger),
    logger,
  };
}

type Refuse = (name: string, message: string) => void;

function checkParts(options: Record<string, unknown>, refuse: Refuse): void {
  const { client, webhooks, store } = options;
  if (!isObject(client) || !isObject(client.bookings) || !isObject(client.listings))
    refuse("client", "must be a StayhookClient");
  const inside = insideOf(webhooks);
  if (!inside) refuse("webhooks", "must be what createWebhookHandler has made");
  const forwards = "hands its events on by forwardTo, and so has no statuses to compare with: a reconciler";
  if (inside?.forwards) refuse("webhooks", `${forwards} needs a handler with an EventStore`);
  if (isObject(store) && store.intakeOnly === true) refuse("store", `${forwards} needs an EventStore`);
  else if (!isObject(store) || typeof store.statuses !== "function" || typeof store.add !== "function")
    refuse("store", "must be the handler's EventStore");
}

function checkRest(options: Record<string, unknown>, refuse: Refuse): void {
  const { baseline, logger } = options;
  if (baseline !== undefined && typeof baseline !== "boolean") refuse("baseline", "must be true or false");
  for (const name of ["backoff", "observe"])
    if (options[name] !== undefined && typeof options[name] !== "function")
      refuse(name, "must be a function");
  if (logger !== undefined && !(isObject(logger) && isLogger(logger)))
    refuse("logger", "must have the functions debug, info, warn and error");
}

const defaultBackoff: Backoff = (attempt) =>
  Math.min(1000 * 2 ** (attempt - 1), 30_000) * (1 - Math.random() / 4);
