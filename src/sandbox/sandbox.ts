import { StayhookError } from "../errors.ts";
import type { Topic } from "../models/webhook-config.ts";
import type { SandboxBookings } from "./bookings.ts";
import { createDeliveryQueue, type DeliveryQueue, type SandboxDelivery } from "./delivery.ts";
import { copy, refuse } from "./fields.ts";
import type { SandboxListings } from "./listings.ts";
import { readOptions, type SandboxOptions, type SandboxSettings } from "./options.ts";
import { createPlatform, type Platform } from "./platform.ts";
import { createRecent } from "./recent.ts";
import type { PlatformRequest, PlatformResponse } from "./routes.ts";
import { serve } from "./server.ts";
import { describeEndpoint, type SandboxWebhookConfig } from "./webhook-config.ts";

/** A request that the sandbox's API got. */
export interface SandboxRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly receivedAt: Date;
  /** That it was answered with. */
  readonly status: number;
}

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
  /** Each attempt to deliver a notification, in the order in which they began: the last 100,000. A snapshot. */
  readonly deliveries: readonly SandboxDelivery[];
  /** Each request to the API, in the order in which they were answered: the last 100,000. A snapshot. */
  readonly requests: readonly SandboxRequest[];

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

  /** Resolves when nothing is left to deliver, retries included. */
  settled(): Promise<void>;

  /** Stops the deliveries and the server, and drops what was not delivered yet. Twice is safe. */
  close(): Promise<void>;
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
  return new InMemorySandbox(readOptions(options));
}

type Listening = Awaited<ReturnType<typeof serve>>;

class InMemorySandbox implements Sandbox {
  readonly #settings: SandboxSettings;
  readonly #platform: Platform;
  readonly #queue: DeliveryQueue;
  readonly #requests = createRecent<SandboxRequest>(100_000);
  #starting: Promise<Listening> | undefined;
  #server: Listening | undefined;
  #closed: Promise<void> | undefined;

  constructor(settings: SandboxSettings) {
    const { seed, accessToken, delivery, logger } = settings;
    this.#settings = settings;
    this.#queue = createDeliveryQueue(seed, delivery, logger);
    this.#platform = createPlatform({
      seed,
      accessToken,
      deliver: (topic, url, notification) => void this.#queue.add({ topic, url, notification }),
    });
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
    return this.#requests.list();
  }

  async listen({ port = 0, host = "127.0.0.1" }: Parameters<Sandbox["listen"]>[0] = {}): Promise<{
    readonly url: string;
  }> {
    if (!Number.isInteger(port) || port < 0 || port > 65_535)
      refuse("must be an integer from 0 to 65535", "port");
    if (typeof host !== "string" || host === "") refuse("must be a host name or address", "host");
    if (this.#closed) throw new StayhookError("the sandbox was closed: make another one");
    if (this.#starting) throw new StayhookError("the sandbox listens already");
    this.#starting = serve((request) => this.#answer(request), { port, host });
    try {
      this.#server = await this.#starting;
    } catch (error) {
      this.#starting = undefined;
      throw error;
    }
    return { url: this.#server.url };
  }

  async send(
    notification: unknown,
    { topic = topicOf(notification), url }: Parameters<Sandbox["send"]>[1] = {},
  ): Promise<SandboxDelivery> {
    const wrong = url === undefined ? undefined : describeEndpoint(url);
    if (wrong !== undefined) refuse(wrong, "url");
    const target = url ?? this.#platform.endpointOf(topic);
    if (target === undefined)
      refuse(`no active configuration has a URL for ${topic}; configure one or give a url`, "topic");
    const content = typeof notification === "string" ? notification : copy(notification ?? null);
    return this.#queue.add({ topic, url: target, notification: content });
  }

  settled(): Promise<void> {
    return this.#queue.settled();
  }

  close(): Promise<void> {
    this.#closed ??= this.#stop();
    return this.#closed;
  }

  async #stop(): Promise<void> {
    this.#queue.close();
    const server = await this.#starting?.catch(() => undefined);
    await Promise.all([server?.close(), this.#queue.settled()]);
  }

  #answer(request: PlatformRequest): PlatformResponse {
    const response = this.#platform.answer(request);
    const { method, target: path } = request;
    this.#requests.add({ method, path, receivedAt: new Date(), status: response.status });
    this.#settings.logger.debug(`${method} ${path}: ${response.status}`);
    return response;
  }
}

function topicOf(notification: unknown): string {
  const { bookingCode = null, listingId = null } = Object(notification) as Record<string, unknown>;
  if (bookingCode !== null) return "bookings";
  return listingId !== null ? "listings" : "messages";
}
