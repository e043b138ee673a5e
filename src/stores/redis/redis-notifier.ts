// Not the globals: a test's fake timers must not stop Redis.
import { clearInterval, setInterval, setTimeout } from "node:timers";
import { isCluster, type Link, type Session } from "./link.ts";

/** ms between two tries to connect: the first and the longest wait. */
const FIRST_WAIT = 50;
const LONGEST_WAIT = 2000;
/** ms for a connection, or for an answer on it. */
const PATIENCE = 10_000;
/** ms between two pings. A router drops an idle connection without telling either side. */
const BEAT = 30_000;

/** The options of a {@link Notifier}. */
export interface NotifierOptions {
  readonly channel: () => Promise<string>;
  /** Our own messages are no news. */
  readonly isOurs: (handle: string) => boolean;
  readonly wake: () => void;
}

/**
 * Listens to the messages of other handles, on a connection of its own, and calls `wake`. It also calls `wake` after
 * each connect, because messages may have been missed. It does not keep the process alive.
 */
export class Notifier {
  readonly #link: Link;
  readonly #options: NotifierOptions;
  #listening = false;
  #closed = false;
  #session: Session | undefined;

  constructor(link: Link, options: NotifierOptions) {
    this.#link = link;
    this.#options = options;
  }

  listen(): void {
    if (!this.#listening) void this.#listen();
  }

  close(): void {
    this.#closed = true;
    this.#session?.end();
  }

  /** Makes one connection after the other until the store is closed. */
  async #listen(): Promise<void> {
    this.#listening = true;
    for (let failures = 0; !this.#closed; failures += 1) {
      let session: Session | undefined;
      try {
        session = await this.#link.another();
        this.#session = session;
        if (await this.#subscribed(session)) {
          failures = 0;
          this.#options.wake();
          await this.#lives(session);
        }
      } catch {
        // The store's calls report what is wrong with Redis.
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
      if (handle !== "" && !this.#options.isOurs(handle)) this.#options.wake();
    });
    client.connect().catch(() => {});
    const until = performance.now() + PATIENCE;
    if (!(await session.becomesReady(until, { holdsProcess: false }))) return false;
    return inTime(client.subscribe(await this.#options.channel()));
  }

  /** Resolves when the session has ended. */
  async #lives(session: Session): Promise<void> {
    const { client } = session;
    const beat = setInterval(async () => {
      // A Cluster replaces its connection silently, so messages may be lost.
      if (isCluster(client)) this.#options.wake();
      else if (!(await inTime(client.ping()))) session.end();
    }, BEAT).unref();
    await new Promise<void>((resolve) => {
      session.onLost(resolve);
      if (!session.isReady) resolve();
    });
    clearInterval(beat);
  }
}

/** Resolves to whether an answer came in time. */
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
