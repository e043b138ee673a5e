// Not the globals: what other processes do goes by no fake clock.
import { clearInterval, setInterval, setTimeout } from "node:timers";
import { Subscribers } from "../subscribers.ts";
import { isCluster, type Link } from "./link.ts";
import type { Session } from "./session.ts";

/** ms between two tries to connect, at first and at most. */
const FIRST_WAIT = 50;
const LONGEST_WAIT = 2000;
/** ms a connection may take, and an answer on it. */
const PATIENCE = 10_000;
/** How often the connection is asked whether it still is one, ms: a router that forgot it tells nobody. */
const BEAT = 30_000;

/**
 * Tells subscribers that something may be due: at once of what this handle did, and over a connection of its own
 * of what others did. Whoever connects anew looks once, for what was said meanwhile. Holds no process open.
 */
export class Wake {
  readonly #link: Link;
  readonly #channel: () => Promise<string>;
  /** By which our own messages are known: we have acted on those already. */
  readonly #isOurs: (handle: string) => boolean;
  readonly #subscribers = new Subscribers();
  #listening = false;
  #closed = false;
  #session: Session | undefined;

  constructor(link: Link, channel: () => Promise<string>, isOurs: (handle: string) => boolean) {
    this.#link = link;
    this.#channel = channel;
    this.#isOurs = isOurs;
  }

  subscribe(wake: () => void): () => void {
    const remove = this.#subscribers.add(wake);
    if (!this.#listening) void this.#listen();
    return remove;
  }

  wake(): void {
    this.#subscribers.wake();
  }

  close(): void {
    this.#closed = true;
    this.#subscribers.clear();
    this.#session?.end();
  }

  /** One connection after the other, as long as somebody listens. */
  async #listen(): Promise<void> {
    this.#listening = true;
    for (let failures = 0; !this.#closed; failures += 1) {
      let session: Session | undefined;
      try {
        session = await this.#link.another();
        this.#session = session;
        if (await this.#subscribed(session)) {
          failures = 0;
          this.wake();
          await this.#lives(session);
        }
      } catch {
        // Calls say what is wrong with Redis, if it is Redis.
      } finally {
        session?.end();
      }
      if (this.#closed) return;
      await pause(Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** failures));
    }
  }

  async #subscribed(session: Session): Promise<boolean> {
    if (this.#closed) return false;
    const { client } = session;
    client.on("message", (_: string, handle: string) => {
      if (handle !== "" && !this.#isOurs(handle)) this.wake();
    });
    client.connect().catch(() => {});
    const until = performance.now() + PATIENCE;
    if (!(await session.becomesReady(until, { holdsProcess: false }))) return false;
    return inTime(client.subscribe(await this.#channel()));
  }

  /** Resolves when it has ended. */
  async #lives(session: Session): Promise<void> {
    const { client } = session;
    const beat = setInterval(async () => {
      // A cluster's client changes its connection without a word.
      if (isCluster(client)) this.wake();
      else if (!(await inTime(client.ping()))) session.end();
    }, BEAT).unref();
    await new Promise<void>((resolve) => {
      session.onLost(resolve);
      if (!session.isReady) resolve();
    });
    clearInterval(beat);
  }
}

/** Whether it was answered. */
async function inTime(answer: Promise<unknown>): Promise<boolean> {
  const answered = answer.then(
    () => true,
    () => false,
  );
  return Promise.race([answered, pause(PATIENCE).then(() => false)]);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}
