import type { RequestListener } from "node:http";
import * as z from "zod";
import { StayhookError } from "../errors.ts";
import type { Topic } from "../models/topics.ts";
import { option, optionsObject } from "../options.ts";
import {
  type Api,
  answerFetch,
  createApi,
  createFaults,
  isLoopbackHost,
  type SandboxFaults,
  type SandboxRequest,
  serve,
} from "./api.ts";
import { type Clock, createClock } from "./clock.ts";
import {
  createDeliveryQueue,
  type DeliveryQueue,
  deliveryControl,
  type SandboxDelivery,
  type SandboxDeliveryControl,
  type SandboxReceiver,
} from "./deliveries.ts";
import {
  check,
  defaultAccessToken,
  readOptions,
  type SandboxOptions,
  type SandboxSettings,
  toDeliverySettings,
} from "./options.ts";
import {
  createPlatform,
  type Platform,
  problemWithUrl,
  type SandboxState,
  type SandboxWebhookConfig,
} from "./platform.ts";
import type { SandboxBookings } from "./sandbox-bookings.ts";
import type { SandboxListings } from "./sandbox-listings.ts";
import { copy, refuse } from "./sandbox-records.ts";

/** The platform in memory: its API, its records and its notifications. {@link createSandbox} makes a sandbox. */
export interface Sandbox {
  /** The seed of all random draws. Print the seed, so that you can repeat the run. */
  readonly seed: number;
  /** The bearer token of the API. */
  readonly accessToken: string;
  /**
   * The URL of the server, such as `http://127.0.0.1:40123`. Pass it to the client as `baseUrl`.
   *
   * @throws StayhookError before `listen` has resolved
   */
  readonly url: string;
  /** The bookings, and the methods that change them. */
  readonly bookings: SandboxBookings;
  /** The listings, and the methods that change them. */
  readonly listings: SandboxListings;
  /** A copy of the webhook configuration, which clients set through the API. It is `undefined` if none is set. */
  readonly webhookConfig: SandboxWebhookConfig | undefined;
  /** A copy of the last 100,000 delivery attempts, the oldest first, including dropped deliveries. */
  readonly deliveries: readonly SandboxDelivery[];
  /** A copy of the last 100,000 requests that the API answered, the oldest first. */
  readonly requests: readonly SandboxRequest[];
  /** The faults of the API. */
  readonly faults: SandboxFaults;
  /** The delivery options, and the method that changes them. */
  readonly delivery: SandboxDeliveryControl;

  /**
   * Starts an HTTP server for the API. The server keeps the process alive until {@link close}. In a browser, the URL
   * shows a page with the sandbox's records, deliveries and faults, and buttons to change them.
   *
   * The server answers 403 to a foreign `Origin`. On loopback, it answers 421 to a foreign `Host`. If `host` is not
   * loopback, set an `accessToken` of your own. The page then asks for the token as a password.
   *
   * @throws InvalidArgumentError (rejects) if `host` is not loopback and `accessToken` is the default
   * @throws StayhookError (rejects) if the sandbox already listens or was closed; Node's error if the port is in use
   */
  listen(options?: {
    /** Default 0: a free port. */
    readonly port?: number | undefined;
    /** Default `127.0.0.1`. */
    readonly host?: string | undefined;
  }): Promise<{
    /** The URL of the server, for the client's `baseUrl`. */
    readonly url: string;
  }>;

  /**
   * Delivers any notification, with the delays, duplicates, drops and retries of `delivery`. The sandbox does not
   * check the notification.
   *
   * @param notification - sent as JSON. A string is sent unchanged, so that you can send a body that is not JSON
   * @param options.topic - default: `bookings` for a notification with a `bookingCode`, `listings` for one with a
   *   `listingId`, else `messages`
   * @param options.url - default: the URL of the topic in the configuration
   * @returns the last attempt, after its answer or error. Attempts to deliver a duplicate do not count
   * @throws InvalidArgumentError (rejects) if `url` is missing and no active configuration has the topic
   */
  send(
    notification: unknown,
    options?: {
      /** The topic of the endpoint. */
      readonly topic?: Topic | (string & {}) | undefined;
      /** Default: the topic's URL in the configuration. */
      readonly url?: string | undefined;
    },
  ): Promise<SandboxDelivery>;

  /**
   * Delivers a notification again, without delay. Of the options in `delivery`, only `retry` and `timeout` apply. Use
   * this method to send a late duplicate, or a delivery that was dropped.
   *
   * @returns the last attempt
   * @throws InvalidArgumentError (rejects) if no delivery had this `eventId`
   */
  redeliver(eventId: string): Promise<SandboxDelivery>;

  /**
   * Hands deliveries to a function instead of the network. `undefined` switches back to the network.
   *
   * @example
   * ```ts
   * sandbox.deliverTo(webhooks.fetch);
   * ```
   */
  deliverTo(receiver: SandboxReceiver | undefined): void;

  /**
   * Answers requests as the API does, without a server. Pass this method as the `fetch` option of a client. The
   * `baseUrl` of the client can be any URL without a path.
   *
   * @example
   * ```ts
   * const { accessToken, fetch } = sandbox;
   * const client = new StayhookClient({ baseUrl: "https://sandbox.example", accessToken, fetch });
   * ```
   */
  fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;

  /**
   * Moves the sandbox's clock ahead. Sends all deliveries, retries and delayed answers that become due, the earliest
   * first. Resolves when all attempts that became due have ended. `advance(0)` only waits for running attempts.
   *
   * @param ms - at least 0
   */
  advance(ms: number): Promise<void>;

  /** Resolves when all deliveries, retries and duplicates have ended. To skip their waits, call {@link advance}. */
  settled(): Promise<void>;

  /** Stops the server, aborts deliveries in flight, and discards waiting deliveries. A second call is safe. */
  close(): Promise<void>;

  /** Calls {@link close}, so that `await using` closes the sandbox. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Makes a sandbox: the platform in memory, for the development and the tests of a subscriber.
 *
 * @throws InvalidArgumentError naming each wrong option
 *
 * @example
 * ```ts
 * const sandbox = createSandbox({ seed: 1, delivery: { duplicates: 1, shuffle: true } });
 * await sandbox.listen();
 * const client = new StayhookClient({ baseUrl: sandbox.url, accessToken: sandbox.accessToken });
 * await client.webhookConfig.ensure({ endpoints: { bookings: "http://127.0.0.1:3000/?key=secret" } });
 *
 * const { bookingCode } = await sandbox.bookings.request();
 * await sandbox.bookings.approve(bookingCode);
 * await sandbox.settled();
 * console.log(sandbox.deliveries);
 * await sandbox.close();
 * ```
 */
export function createSandbox(options: SandboxOptions = {}): Sandbox {
  return createSandboxWith(options);
}

/** Makes a sandbox for the command line, which keeps the state in a file. */
export function createSandboxWith(options: SandboxOptions, keeper?: StateKeeper): Sandbox {
  return new InMemorySandbox(readOptions(options), keeper);
}

/** Keeps the bookings, the listings and the webhook configuration for a later sandbox. */
export interface StateKeeper {
  /** The state of an earlier sandbox. */
  readonly given: SandboxState | undefined;
  /** Called after each change. */
  save(state: SandboxState): void;
}

const portError = "must be an integer from 0 to 65535";
const listenSchema = () =>
  optionsObject({
    port: z.int({ error: portError }).min(0, portError).max(65_535, portError).optional(),
    host: z
      .string({ error: "must be a host name or address" })
      .min(1, "must be a host name or address")
      .optional(),
  });

const sendSchema = () =>
  optionsObject({
    topic: z.string({ error: "must be a topic, such as bookings" }).optional(),
    url: option((url) => (typeof url === "string" ? problemWithUrl(url) : "must be a URL")).optional(),
  });

type Listening = Awaited<ReturnType<typeof serve>>;

class InMemorySandbox implements Sandbox {
  readonly faults: SandboxFaults;
  readonly delivery: SandboxDeliveryControl;
  readonly #settings: SandboxSettings;
  readonly #clock: Clock = createClock();
  readonly #platform: Platform;
  readonly #queue: DeliveryQueue;
  readonly #api: Api;
  #starting: Promise<Listening> | undefined;
  #server: Listening | undefined;
  #closed: Promise<void> | undefined;

  constructor(settings: SandboxSettings, keeper: StateKeeper | undefined) {
    const { seed, accessToken, log, observe } = settings;
    const clock = this.#clock;
    const queue = createDeliveryQueue({
      seed,
      settings: toDeliverySettings(settings.delivery),
      clock,
      log,
      observe: (delivery) => observe({ kind: "delivery", ...delivery }),
    });
    const platform = createPlatform({
      seed,
      accessToken,
      now: clock.now,
      deliver: (topic, url, notification) => void queue.add({ topic, url, notification }),
      given: keeper?.given,
      changed: () => keeper?.save(platform.state()),
    });
    // A file that cannot be written is an error now, not at the first change.
    keeper?.save(platform.state());
    const faults = createFaults(seed, settings.faults);
    this.#settings = settings;
    this.#queue = queue;
    this.#platform = platform;
    this.#api = createApi({
      platform,
      faults,
      clock,
      log,
      observe: (request) => observe({ kind: "request", ...request }),
    });
    this.faults = faults;
    this.delivery = deliveryControl(settings.delivery, queue);
  }

  get seed(): number {
    return this.#settings.seed;
  }

  get accessToken(): string {
    return this.#settings.accessToken;
  }

  get url(): string {
    if (!this.#server)
      throw new StayhookError("The sandbox has no URL yet. Call and await sandbox.listen() first.");
    return this.#server.url;
  }

  get bookings(): SandboxBookings {
    return this.#platform.bookings;
  }

  get listings(): SandboxListings {
    return this.#platform.listings;
  }

  get webhookConfig(): SandboxWebhookConfig | undefined {
    const config = this.#platform.webhookConfig;
    return config && copy(config);
  }

  get deliveries(): readonly SandboxDelivery[] {
    return this.#queue.list();
  }

  get requests(): readonly SandboxRequest[] {
    return this.#api.requests();
  }

  async listen(options: Parameters<Sandbox["listen"]>[0] = {}): Promise<{ readonly url: string }> {
    check(listenSchema, options);
    const { port = 0, host = "127.0.0.1" } = options;
    if (!isLoopbackHost(host) && this.accessToken === defaultAccessToken)
      refuse(
        `the default token is for loopback only, but other machines can reach ${host}. Give createSandbox() an ` +
          "accessToken of your own (command line: STAYHOOK_ACCESS_TOKEN), or listen on 127.0.0.1",
        "accessToken",
      );
    if (this.#closed) throw new StayhookError("The sandbox was closed. Make another sandbox.");
    if (this.#starting) throw new StayhookError("The sandbox already listens. Call listen() only once.");
    const page = () => this.#page(!isLoopbackHost(host));
    this.#starting = serve((request) => this.#api.answer(request), page, { port, host });
    try {
      this.#server = await this.#starting;
    } catch (error) {
      this.#starting = undefined;
      throw error;
    }
    return { url: this.#server.url };
  }

  /** Imports the page's code only when somebody opens the page, because most tests do not need it. */
  async #page(needsToken: boolean): Promise<RequestListener> {
    const { createPage } = await import("./page.ts");
    const source = {
      sandbox: this,
      deliveries: (limit: number) => this.#queue.list(limit),
      requests: (limit: number) => this.#api.requests(limit),
    };
    return createPage(source, { needsToken, log: this.#settings.log });
  }

  async send(notification: unknown, options: Parameters<Sandbox["send"]>[1] = {}): Promise<SandboxDelivery> {
    check(sendSchema, options);
    const { topic = topicOf(notification), url } = options;
    const target = url ?? this.#platform.endpointOf(topic);
    if (target === undefined)
      refuse(
        `no active webhook configuration has a URL for ${topic}. Configure a URL, or pass the option \`url\``,
        "topic",
      );
    const content =
      typeof notification === "string" ? notification : copy(notification ?? null, "the notification");
    return this.#queue.add({ topic, url: target, notification: content });
  }

  async redeliver(eventId: string): Promise<SandboxDelivery> {
    const earlier = this.#queue.list().findLast((delivery) => delivery.eventId === eventId);
    if (!earlier) refuse(`there was no delivery of event ${String(eventId)}`, "eventId");
    const { topic, url, notification } = earlier;
    return this.#queue.again({ topic, url, notification });
  }

  deliverTo(receiver: SandboxReceiver | undefined): void {
    if (receiver !== undefined && typeof receiver !== "function") refuse("must be a function", "receiver");
    this.#queue.receiver = receiver;
  }

  readonly fetch = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    if (this.#closed)
      throw new TypeError("fetch failed", { cause: new StayhookError("the sandbox was closed") });
    return answerFetch((request) => this.#api.answer(request), new Request(input, init));
  };

  async advance(ms: number): Promise<void> {
    if (!(Number.isFinite(ms) && ms >= 0)) refuse("must be a number of ms, at least 0", "ms");
    const target = this.#clock.now() + ms;
    for (;;) {
      await this.#queue.idle();
      const next = this.#clock.nextDue();
      if (next === undefined || next > target) break;
      this.#clock.moveTo(next);
    }
    this.#clock.moveTo(target);
    this.#clock.rearm();
  }

  settled(): Promise<void> {
    return this.#queue.settled();
  }

  close(): Promise<void> {
    this.#closed ??= this.#stop();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #stop(): Promise<void> {
    this.#clock.stop();
    const server = await this.#starting?.catch(() => undefined);
    await Promise.all([server?.close(), this.#queue.settled()]);
  }
}

function topicOf(notification: unknown): string {
  const { bookingCode = null, listingId = null } = Object(notification) as Record<string, unknown>;
  if (bookingCode !== null) return "bookings";
  return listingId !== null ? "listings" : "messages";
}
