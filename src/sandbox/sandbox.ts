import type { Topic } from "../models/topics.ts";
import type { SandboxDeliveryControl, SandboxReceiver } from "./deliveries.ts";
import type { SandboxFaults } from "./faults.ts";
import type { SandboxDelivery, SandboxRequest } from "./observations.ts";
import type { SandboxWebhookConfig } from "./platform.ts";
import type { SandboxBookings } from "./sandbox-bookings.ts";
import type { SandboxListings } from "./sandbox-listings.ts";

/** One account of the platform: its token, its records, its webhook configuration and its faults. */
export interface SandboxAccount {
  /** The id of the account. It is `undefined` in a sandbox without accounts. */
  readonly accountId: string | undefined;
  /** The bearer token of the API. */
  readonly accessToken: string;
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
}

/**
 * The platform in memory: its API, its records and its notifications. `createSandbox` makes a sandbox.
 *
 * In a sandbox with `accounts`, `deliveries` and `requests` are those of all accounts, and `faults` apply to all. The
 * other members of {@link SandboxAccount} throw a StayhookError, because each account has its own: call `account(id)`.
 */
export interface Sandbox extends SandboxAccount {
  /** The seed of all random draws. Print the seed, so that you can repeat the run. */
  readonly seed: number;
  /**
   * The URL of the server, such as `http://127.0.0.1:40123`. Pass it to the client as `baseUrl`.
   *
   * @throws StayhookError before `listen` has resolved
   */
  readonly url: string;
  /** The delivery options, and the method that changes them. */
  readonly delivery: SandboxDeliveryControl;
  /** The ids of the accounts. The list is empty in a sandbox without accounts. */
  readonly accounts: readonly string[];

  /**
   * Returns one account of a sandbox with `accounts`.
   *
   * @throws InvalidArgumentError if the sandbox has no such account
   * @example
   * ```ts
   * const sandbox = createSandbox({ accounts: ["a17", "b2"] });
   * const { accessToken, bookings } = sandbox.account("a17");
   * ```
   */
  account(id: string): SandboxAccount;
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
  readonly fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

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
