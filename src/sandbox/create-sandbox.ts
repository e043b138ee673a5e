import type { RequestListener } from "node:http";
import * as z from "zod";
import { StayhookError } from "../errors.ts";
import { option, optionsObject } from "../options.ts";
import { type Api, answerFetch, createApi, isLoopbackHost, serve } from "./api.ts";
import { check } from "./checks.ts";
import { Clock } from "./clock.ts";
import {
  DeliveryQueue,
  deliveryControl,
  type SandboxDeliveryControl,
  type SandboxReceiver,
} from "./deliveries.ts";
import { createFaults, type FaultInjector, type SandboxFaults } from "./faults.ts";
import type { SandboxDelivery, SandboxRequest } from "./observations.ts";
import {
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
import type { Sandbox, SandboxAccount } from "./sandbox.ts";
import type { SandboxBookings } from "./sandbox-bookings.ts";
import type { SandboxListings } from "./sandbox-listings.ts";
import { copy, throwInvalid } from "./sandbox-records.ts";

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

/** A sandbox for the command line. */
export interface ConfigurableSandbox extends Sandbox {
  /** Configures the endpoints of each account without a request to the API, which lists the requests of apps only. */
  configure(endpointsOf: (account: string | undefined) => SandboxWebhookConfig["endpoints"]): void;
}

/** Makes a sandbox for the command line, which keeps the state in a file. */
export function createSandboxWith(options: SandboxOptions, keeper?: StateKeeper): ConfigurableSandbox {
  return new InMemorySandbox(readOptions(options), keeper);
}

/** Keeps the bookings, the listings and the webhook configuration of each account for a later sandbox. */
export interface StateKeeper {
  /** Returns the state of an account in an earlier sandbox. */
  given(account: string | undefined): SandboxState | undefined;
  save(account: string | undefined, state: SandboxState): void;
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

/** The parts that the accounts of a sandbox share. */
interface Shared {
  readonly settings: SandboxSettings;
  readonly clock: Clock;
  readonly queue: DeliveryQueue;
  readonly keeper: StateKeeper | undefined;
  readonly requests: (account: string | undefined) => readonly SandboxRequest[];
}

class InMemoryAccount implements SandboxAccount {
  readonly accountId: string | undefined;
  readonly accessToken: string;
  readonly faults: FaultInjector;
  readonly platform: Platform;
  readonly #shared: Shared;

  constructor(accountId: string | undefined, shared: Shared) {
    const { settings, clock, queue, keeper } = shared;
    const { seed, accessToken } = settings;
    this.#shared = shared;
    this.accountId = accountId;
    this.accessToken = accountId === undefined ? accessToken : `${accessToken}-${accountId}`;
    this.faults = createFaults(seed, [], accountId);
    const platform = createPlatform({
      seed,
      account: accountId,
      accessToken: this.accessToken,
      now: () => clock.now(),
      deliver: (topic, url, notification) => void queue.add({ account: accountId, topic, url, notification }),
      given: keeper?.given(accountId),
      changed: () => keeper?.save(accountId, platform.state()),
    });
    // A file that cannot be written is an error now, not at the first change.
    keeper?.save(accountId, platform.state());
    this.platform = platform;
  }

  get bookings(): SandboxBookings {
    return this.platform.bookings;
  }

  get listings(): SandboxListings {
    return this.platform.listings;
  }

  get webhookConfig(): SandboxWebhookConfig | undefined {
    const config = this.platform.webhookConfig;
    return config && copy(config);
  }

  get deliveries(): readonly SandboxDelivery[] {
    return this.#shared.queue.list(undefined, this.accountId);
  }

  get requests(): readonly SandboxRequest[] {
    return this.#shared.requests(this.accountId);
  }

  async send(notification: unknown, options: Parameters<Sandbox["send"]>[1] = {}): Promise<SandboxDelivery> {
    check(sendSchema, options);
    const { topic = topicOf(notification), url } = options;
    const target = url ?? this.platform.endpointOf(topic);
    if (target === undefined)
      throwInvalid(
        `no active webhook configuration has a URL for ${topic}. Configure a URL, or pass the option \`url\``,
        "topic",
      );
    const content =
      typeof notification === "string" ? notification : copy(notification ?? null, "the notification");
    return this.#shared.queue.add({ account: this.accountId, topic, url: target, notification: content });
  }
}

class InMemorySandbox implements ConfigurableSandbox {
  readonly faults: SandboxFaults;
  readonly delivery: SandboxDeliveryControl;
  readonly accounts: readonly string[];
  readonly #settings: SandboxSettings;
  readonly #clock = new Clock();
  readonly #accounts: readonly [InMemoryAccount, ...InMemoryAccount[]];
  readonly #queue: DeliveryQueue;
  readonly #api: Api;
  #starting: Promise<Listening> | undefined;
  #server: Listening | undefined;
  #closed: Promise<void> | undefined;

  constructor(settings: SandboxSettings, keeper: StateKeeper | undefined) {
    const { seed, log, observe } = settings;
    const clock = this.#clock;
    const queue = new DeliveryQueue({
      seed,
      settings: toDeliverySettings(settings.delivery),
      clock,
      log,
      observe: (delivery) => observe({ kind: "delivery", ...delivery }),
    });
    const requests = (account: string | undefined) => this.#api.requests(undefined, account);
    const [first, ...others] = settings.accounts;
    const make = (id: string | undefined) =>
      new InMemoryAccount(id, { settings, clock, queue, keeper, requests });
    this.#accounts = [make(first), ...others.map(make)];
    this.accounts = settings.accounts.filter((id) => id !== undefined);
    const faults = createFaults(seed, settings.faults);
    this.#settings = settings;
    this.#queue = queue;
    this.#api = createApi({
      accounts: this.#accounts,
      faults,
      clock,
      log,
      observe: (request) => observe({ kind: "request", ...request }),
    });
    this.faults = faults;
    this.delivery = deliveryControl(settings.delivery, queue);
  }

  get accountId(): undefined {
    return undefined;
  }

  account(id: string): SandboxAccount {
    const found = this.#accounts.find(({ accountId }) => accountId === id && id !== undefined);
    if (found) return found;
    const none = 'the sandbox has no accounts. Give createSandbox their ids: { accounts: ["a17"] }';
    const known = `must be an account of the sandbox: ${this.accounts.join(", ")}`;
    return throwInvalid(this.accounts.length === 0 ? none : known, "account");
  }

  /** The account of a sandbox without accounts. @throws StayhookError in a sandbox with accounts */
  #only(member: string): InMemoryAccount {
    const [first] = this.#accounts;
    if (first.accountId === undefined) return first;
    throw new StayhookError(
      `Each account of this sandbox has its own \`${member}\`. Call sandbox.account("${first.accountId}").${member}, or name another account.`,
    );
  }

  get seed(): number {
    return this.#settings.seed;
  }

  get accessToken(): string {
    return this.#only("accessToken").accessToken;
  }

  get url(): string {
    if (!this.#server)
      throw new StayhookError("The sandbox has no URL yet. Call and await sandbox.listen() first.");
    return this.#server.url;
  }

  get bookings(): SandboxBookings {
    return this.#only("bookings").bookings;
  }

  get listings(): SandboxListings {
    return this.#only("listings").listings;
  }

  get webhookConfig(): SandboxWebhookConfig | undefined {
    return this.#only("webhookConfig").webhookConfig;
  }

  get deliveries(): readonly SandboxDelivery[] {
    return this.#queue.list();
  }

  get requests(): readonly SandboxRequest[] {
    return this.#api.requests();
  }

  configure(endpointsOf: (account: string | undefined) => SandboxWebhookConfig["endpoints"]): void {
    for (const { accountId, platform } of this.#accounts) platform.configure(endpointsOf(accountId));
  }

  async listen(options: Parameters<Sandbox["listen"]>[0] = {}): Promise<{ readonly url: string }> {
    check(listenSchema, options);
    const { port = 0, host = "127.0.0.1" } = options;
    if (!isLoopbackHost(host) && this.#settings.accessToken === defaultAccessToken)
      throwInvalid(
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
      tokens: this.#accounts.map(({ accessToken }) => accessToken),
      deliveries: (limit: number, account?: string) => this.#queue.list(limit, account),
      requests: (limit: number, account?: string) => this.#api.requests(limit, account),
    };
    return createPage(source, { needsToken, log: this.#settings.log });
  }

  // Without `async`, a refused notification rejects as early as in the account. The shell and the page tell it then.
  send(notification: unknown, options?: Parameters<Sandbox["send"]>[1]): Promise<SandboxDelivery> {
    try {
      return this.#only("send").send(notification, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async redeliver(eventId: string): Promise<SandboxDelivery> {
    const earlier = this.#queue.list().findLast((delivery) => delivery.eventId === eventId);
    if (!earlier) throwInvalid(`there was no delivery of event ${String(eventId)}`, "eventId");
    const { account, topic, url, notification } = earlier;
    return this.#queue.again({ account, topic, url, notification });
  }

  deliverTo(receiver: SandboxReceiver | undefined): void {
    if (receiver !== undefined && typeof receiver !== "function")
      throwInvalid("must be a function", "receiver");
    this.#queue.receiver = receiver;
  }

  readonly fetch = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    if (this.#closed)
      throw new TypeError("fetch failed", { cause: new StayhookError("the sandbox was closed") });
    return answerFetch((request) => this.#api.answer(request), new Request(input, init));
  };

  async advance(ms: number): Promise<void> {
    if (!(Number.isFinite(ms) && ms >= 0)) throwInvalid("must be a number of ms, at least 0", "ms");
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
