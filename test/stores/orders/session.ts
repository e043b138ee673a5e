/** What a session does next: it waits at a gate, waits for an answer of the server, or has ended. */
type Position = "at a gate" | "under way" | "ended";

/** A statement that reached the server after the caller was told that it failed. */
export type Late = () => Promise<void>;

/** How a gate treats a statement whose answer gets lost: the server runs it at once, or later, or never. */
export type Loss = "answer" | "late";

/** One call whose statements wait at gates, so that a schedule decides when each of them runs. */
export class Session {
  readonly name: string;
  /** The statements that ran, by name. */
  readonly ran: string[] = [];
  answer: unknown;
  /** The first statement with this name gets lost. */
  readonly #lost: { readonly at: string; readonly how: Loss } | undefined;
  readonly #onLate: (late: Late) => void;
  #position: Position = "under way";
  #hasLost = false;
  /** Whether the session waited for a lock when it was last asked. */
  #isWaiting = false;
  #open: (() => void) | undefined;
  #next = "";
  #moved = Promise.withResolvers<void>();

  constructor(
    name: string,
    lost?: { readonly at: string; readonly how: Loss },
    onLate: (late: Late) => void = () => {},
  ) {
    this.name = name;
    this.#lost = lost;
    this.#onLate = onLate;
  }

  get isReady(): boolean {
    return this.#position === "at a gate";
  }

  get hasEnded(): boolean {
    return this.#position === "ended";
  }

  start(run: () => Promise<unknown>): void {
    void run()
      .then(
        (answer) => answer,
        (error: unknown) => `rejected: ${error instanceof Error ? error.message : String(error)}`,
      )
      .then((answer) => {
        this.answer = answer;
        this.#move("ended");
      });
  }

  /**
   * Waits until the schedule lets the statement run.
   *
   * @param run - sends the statement
   * @throws if the statement gets lost
   */
  async gate<T>(name: string, run: () => Promise<T>): Promise<T> {
    this.#next = name;
    await new Promise<void>((resolve) => {
      this.#open = resolve;
      this.#move("at a gate");
    });
    if (this.#hasLost || this.#lost?.at !== name) return run();
    this.#hasLost = true;
    if (this.#lost.how === "answer") await run().catch(() => {});
    else this.#onLate(async () => void (await run().catch(() => {})));
    throw new Error("the answer was lost");
  }

  /** Lets the next statement run, and resolves when the session has moved on, or waits for a lock. */
  async step(isWaiting: () => Promise<boolean>): Promise<void> {
    this.ran.push(this.#next);
    this.#moved = Promise.withResolvers();
    this.#position = "under way";
    this.#isWaiting = false;
    this.#open?.();
    await this.moved(isWaiting);
  }

  /** Resolves when the session is at a gate again or has ended, or when it waits for a lock. */
  async moved(isWaiting: () => Promise<boolean>): Promise<void> {
    while (this.#position === "under way") {
      if (this.#isWaiting && (await isWaiting())) return;
      this.#isWaiting = false;
      const late = new Promise<void>((resolve) => setTimeout(resolve, 1));
      await Promise.race([this.#moved.promise, late]);
      this.#isWaiting = this.#position === "under way" && (await isWaiting());
      if (this.#isWaiting) return;
    }
  }

  #move(to: Position): void {
    this.#position = to;
    this.#moved.resolve();
  }
}
