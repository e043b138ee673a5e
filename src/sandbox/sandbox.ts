import { StayhookError } from "../errors.ts";
import type { Topic } from "../models/webhook-config.ts";
import { checkNoUnknown } from "../options.ts";
import { type Api, createApi, type SandboxRequest } from "./api.ts";
import type { SandboxReceiver } from "./attempt.ts";
import type { SandboxBookings } from "./bookings.ts";
import { type Clock, createClock } from "./clock.ts";
import { createClosing } from "./closing.ts";
import { createDeliveryQueue, type DeliveryQueue, type SandboxDelivery } from "./delivery.ts";
import { deliverySchema, type SandboxDeliveryOptions, toDeliverySettings } from "./delivery-options.ts";
import { createFaults, type SandboxFaults } from "./faults.ts";
import { answerFetch } from "./fetch.ts";
import { copy, refuse } from "./fields.ts";
import type { SandboxListings } from "./listings.ts";
import { check } from "./option-kinds.ts";
import { readOptions, type SandboxOptions, type SandboxSettings } from "./options.ts";
import { createPlatform, type Platform } from "./platform.ts";
import { type Render, render } from "./render.ts";
import { serve } from "./server.ts";
import { describeEndpoint, type SandboxWebhookConfig } from "./webhook-config.ts";

/**
 * The platform in memory: its API as a real HTTP server, bookings and listings that you move, and the
 * notifications that it sends for them. Made by {@link createSandbox}.
 */
export interface Sandbox {
  /** The one that all random things come from. Print it, and a run can be repeated. */
  readonly seed: number;
  /** What the API takes as bearer token. */
  readonly accessToken: string;
  /**
   * The client's `baseUrl`, such as `http://127.0.0.1:40123`.
   *
   * @throws StayhookError before `listen` has resolved
   */
  readonly url: string;
  readonly bookings: SandboxBookings;
  readonly listings: SandboxListings;
  /** A copy of the configuration as it is now; `undefined` where there is none. It is set through the API. */
  readonly webhookConfig: SandboxWebhookConfig | undefined;
  /**
   * Each attempt to deliver a notification, in the order in which they began, with those that were dropped: the
   * last 100,000. A snapshot.
   */
  readonly deliveries: readonly SandboxDelivery[];
  /** Each request to the API, in the order in which they were answered: the last 100,000. A snapshot. */
  readonly requests: readonly SandboxRequest[];
  /** What goes wrong with requests to the API. */
  readonly faults: SandboxFaults;
  /** How notifications are delivered. */
  readonly delivery: SandboxDeliveryControl;

  /**
   * Starts the server. The process lives on until {@link close}.
   *
   * @param options.port - default 0: one that is free
   * @param options.host - default `127.0.0.1`
   * @throws StayhookError (rejects) where it listens already, or was closed; Node's error where the port is taken
   */
  listen(options?: {
    readonly port?: number | undefined;
    readonly host?: string | undefined;
  }): Promise<{ readonly url: string }>;

  /**
   * Delivers any notification, with the same duplicates, shuffling, delays and retries as the platform's own.
   * Nothing in it is checked; a string goes out as it is, so that a body need not be JSON either.
   *
   * @param notification - what to send, written as JSON
   * @param options.topic - default: `bookings` where it has a `bookingCode`, `listings` where it has a
   *   `listingId`, else `messages`
   * @param options.url - default: the topic's in the configuration
   * @returns the last attempt at it, once that was answered or failed (of duplicates: at the first)
   * @throws InvalidArgumentError (rejects) where there is no URL to send it to: none is configured, or the
   *   configuration is not active
   */
  send(
    notification: unknown,
    options?: {
      readonly topic?: Topic | (string & {}) | undefined;
      readonly url?: string | undefined;
    },
  ): Promise<SandboxDelivery>;

  /**
   * Delivers a notification once more, now: at once, once, and whatever `delivery` says; retries aside. For a
   * duplicate that comes late, or one that was dropped.
   *
   * @returns the last attempt at it
   * @throws InvalidArgumentError (rejects) where no delivery had this `eventId`
   */
  redeliver(eventId: string): Promise<SandboxDelivery>;

  /**
   * Lets deliveries go to a function instead of over the network: to the `fetch` of a webhook handler, so that no
   * server is needed. The URL is the configured one. `undefined` lets them go over the network again.
   *
   * @example
   * ```ts
   * sandbox.deliverTo(webhooks.fetch);
   * ```
   */
  deliverTo(receiver: SandboxReceiver | undefined): void;

  /**
   * The API without a server: answers what is below any base URL, as `fetch` does. Needs no `this`.
   *
   * @example
   * ```ts
   * const client = new StayhookClient({ baseUrl: "https://sandbox.example", accessToken: "sandbox", fetch: sandbox.fetch });
   * ```
   */
  fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;

  /**
   * Moves the sandbox's clock ahead: delays, duplicates, retries and slow answers that are due by then come now,
   * one after the other as they would have come. Later events are later by as much. `advance(0)` waits for what
   * is due already.
   *
   * @param ms - any number from 0
   * @returns when what was due has been delivered, and answered
   */
  advance(ms: number): Promise<void>;

  /**
   * Resolves when nothing is left to deliver, retries and late duplicates included. For those that are hours
   * away see {@link advance}.
   */
  settled(): Promise<void>;

  /** Stops the deliveries and the server, and drops what was not delivered yet. Twice is safe. */
  close(): Promise<void>;
}

/** How notifications are delivered, to be switched while the sandbox runs. */
export interface SandboxDeliveryControl {
  /**
   * Delivers in another way what comes from now on; options that are left out stay as they are.
   *
   * @throws InvalidArgumentError naming each option that cannot be used
   * @example
   * ```ts
   * sandbox.delivery.set({ drop: 1 }); // the line is dead
   * ```
   */
  set(options: SandboxDeliveryOptions): void;
  /** A copy of the options as they are now. */
  readonly current: SandboxDeliveryOptions;
}

/**
 * Makes a sandbox: the platform, in memory, to develop and test a subscriber with.
 *
 * @throws InvalidArgumentError naming each option that cannot be used
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
  return createSandboxWith(options, render);
}

/** For the project's own tests, which give the answers other forms. */
export function createSandboxWith(options: SandboxOptions, rendered: Render): Sandbox {
  return new InMemorySandbox(readOptions(options), rendered);
}

type Listening = Awaited<ReturnType<typeof serve>>;

class InMemorySandbox implements Sandbox {
  readonly faults: SandboxFaults;
  readonly delivery: SandboxDeliveryControl;
  readonly #settings: SandboxSettings;
  readonly #closing = createClosing();
  readonly #clock: Clock = createClock(this.#closing);
  readonly #platform: Platform;
  readonly #queue: DeliveryQueue;
  readonly #api: Api;
  #starting: Promise<Listening> | undefined;
  #server: Listening | undefined;
  #closed: Promise<void> | undefined;

  constructor(settings: SandboxSettings, rendered: Render) {
    const { seed, accessToken, log, observe } = settings;
    const clock = this.#clock;
    const queue = createDeliveryQueue({
      seed,
      settings: toDeliverySettings(settings.delivery),
      clock,
      closing: this.#closing,
      log,
      observe: (delivery) => observe({ kind: "delivery", ...delivery }),
    });
    const platform = createPlatform({
      seed,
      accessToken,
      now: clock.now,
      deliver: (topic, url, notification) => void queue.add({ topic, url, notification }),
    });
    const faults = createFaults(seed, settings.faults);
    this.#settings = settings;
    this.#queue = queue;
    this.#platform = platform;
    this.#api = createApi({
      platform,
      faults,
      render: rendered,
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
    if (!this.#server) throw new StayhookError("the sandbox has no URL yet: await sandbox.listen() first");
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
    checkNoUnknown(options, ["port", "host"]);
    const { port = 0, host = "127.0.0.1" } = options;
    if (!Number.isInteger(port) || port < 0 || port > 65_535)
      refuse("must be an integer from 0 to 65535", "port");
    if (typeof host !== "string" || host === "") refuse("must be a host name or address", "host");
    if (this.#closed) throw new StayhookError("the sandbox was closed: make another one");
    if (this.#starting) throw new StayhookError("the sandbox listens already");
    this.#starting = serve((request) => this.#api.answer(request), { port, host });
    try {
      this.#server = await this.#starting;
    } catch (error) {
      this.#starting = undefined;
      throw error;
    }
    return { url: this.#server.url };
  }

  async send(notification: unknown, options: Parameters<Sandbox["send"]>[1] = {}): Promise<SandboxDelivery> {
    checkNoUnknown(options, ["topic", "url"]);
    const { topic = topicOf(notification), url } = options;
    const wrong = url === undefined ? undefined : describeEndpoint(url);
    if (wrong !== undefined) refuse(wrong, "url");
    const target = url ?? this.#platform.endpointOf(topic);
    if (target === undefined)
      refuse(`no active configuration has a URL for ${topic}; configure one or give a url`, "topic");
    const content = typeof notification === "string" ? notification : copy(notification ?? null);
    return this.#queue.add({ topic, url: target, notification: content });
  }

  async redeliver(eventId: string): Promise<SandboxDelivery> {
    const earlier = this.#queue.list().findLast((delivery) => delivery.eventId === eventId);
    if (!earlier) refuse(`nothing with the id ${String(eventId)} was delivered or dropped so far`, "eventId");
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
    if (!(Number.isFinite(ms) && ms >= 0)) refuse("must be a number of ms, from 0", "ms");
    const target = this.#clock.now() + ms;
    for (;;) {
      await this.#queue.idle();
      const next = this.#clock.next();
      if (next === undefined || next > target) break;
      this.#clock.moveTo(next);
    }
    this.#clock.moveTo(target);
    this.#clock.setAnew();
  }

  settled(): Promise<void> {
    return this.#queue.settled();
  }

  close(): Promise<void> {
    this.#closed ??= this.#stop();
    return this.#closed;
  }

  async #stop(): Promise<void> {
    this.#closing.close();
    const server = await this.#starting?.catch(() => undefined);
    await Promise.all([server?.close(), this.#queue.settled()]);
  }
}

function deliveryControl(initial: SandboxDeliveryOptions, queue: DeliveryQueue): SandboxDeliveryControl {
  let options = copy(initial);
  return {
    set(changes) {
      check(deliverySchema, changes, ["delivery"]);
      const given = Object.entries(changes).filter(([, value]) => value !== undefined);
      options = copy({ ...options, ...Object.fromEntries(given) });
      queue.settings = toDeliverySettings(options);
    },
    get current() {
      return copy(options);
    },
  };
}

function topicOf(notification: unknown): string {
  const { bookingCode = null, listingId = null } = Object(notification) as Record<string, unknown>;
  if (bookingCode !== null) return "bookings";
  return listingId !== null ? "listings" : "messages";
}
