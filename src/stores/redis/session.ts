// Not the globals: a test's fake timers must not stop Redis.
import type { Socket } from "node:net";
import { clearTimeout, setTimeout } from "node:timers";
import type { Cluster, Redis } from "ioredis";
import { StayhookError } from "../../errors.ts";

/** A client of the user's. */
export type RedisClient = Redis | Cluster;

type Module = typeof import("ioredis");

/**
 * The optional peer, at its first use.
 *
 * @throws {@link StayhookError} where it is not installed
 */
export async function loadRedis(
  load: () => Promise<unknown> = () => import("ioredis"),
): Promise<typeof Redis> {
  try {
    const module = (await load()) as Module & { readonly default?: Module };
    return module.Redis ?? module.default?.Redis;
  } catch (cause) {
    const code = String((cause as NodeJS.ErrnoException | undefined)?.code);
    if (!code.endsWith("MODULE_NOT_FOUND")) throw cause;
    throw new StayhookError('redisStore needs the package "ioredis". Install it: npm install ioredis', {
      cause,
    });
  }
}

const SIGNALS = ["ready", "close", "end"] as const;
type Signal = (typeof SIGNALS)[number];

/** A client and its connection. It has one listener for each event, however many calls wait. */
export class Session {
  readonly client: RedisClient;
  readonly #waiting = new Set<(signal: Signal) => void>();
  readonly #detachers: (() => void)[] = [];

  constructor(client: RedisClient) {
    this.client = client;
    for (const signal of SIGNALS) {
      const tell = (): void => {
        for (const each of [...this.#waiting]) each(signal);
      };
      client.on(signal, tell);
      this.#detachers.push(() => client.off(signal, tell));
    }
  }

  get isReady(): boolean {
    // Between the end of a connection and its client's notice of it, nothing can be sent.
    return this.client.status === "ready" && this.#stream?.writable !== false;
  }

  /** A cluster's client has several, and shows none. */
  get #stream(): Partial<Pick<Socket, "writable" | "destroy">> | undefined {
    return "stream" in this.client ? this.client.stream : undefined;
  }

  /** Whether it becomes ready before `until`, of `performance.now()`; `false` at once where its life ends. */
  becomesReady(until: number, { holdsProcess }: { readonly holdsProcess: boolean }): Promise<boolean> {
    if (this.isReady || this.client.status === "end") return Promise.resolve(this.isReady);
    return new Promise((resolve) => {
      const stop = (ready: boolean): void => {
        clearTimeout(timer);
        this.#waiting.delete(hear);
        resolve(ready);
      };
      const hear = (signal: Signal): void => {
        if (signal !== "close") stop(signal === "ready");
      };
      const timer = setTimeout(() => stop(false), Math.max(0, until - performance.now()));
      if (!holdsProcess) timer.unref();
      this.#waiting.add(hear);
    });
  }

  /** Calls `lost` once the connection is; the returned function takes that back. */
  onLost(lost: () => void): () => void {
    const hear = (signal: Signal): void => {
      if (signal !== "ready") lost();
    };
    this.#waiting.add(hear);
    return () => this.#waiting.delete(hear);
  }

  /** Leaves the client as it was found. */
  detach(): void {
    for (const detach of this.#detachers.splice(0)) detach();
  }

  /** Ends the connection for good, also where the other side no longer answers. */
  end(): void {
    // Of one that has ended, ioredis would wait two seconds for the end.
    if (this.client.status === "end") return;
    this.client.disconnect();
    this.#stream?.destroy?.();
  }
}
