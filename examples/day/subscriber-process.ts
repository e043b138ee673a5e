import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Command, Told } from "./messages.ts";

const program = fileURLToPath(new URL("./subscriber.ts", import.meta.url));

/** Runs subscriber.ts in a child process, which can be killed and started again. The child ends with this process. */
export class SubscriberProcess {
  readonly #env: NodeJS.ProcessEnv;
  readonly #hear: (told: Told) => void;
  #child!: ChildProcess;
  #mayEnd = false;

  constructor(env: NodeJS.ProcessEnv, hear: (told: Told) => void) {
    this.#env = env;
    this.#hear = hear;
    // Kill the child before another "exit" listener removes the child's file.
    process.prependListener("exit", () => this.#child?.kill("SIGKILL"));
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Resolves when the subscriber listens. */
  async start(): Promise<void> {
    this.#mayEnd = false;
    this.#child = fork(program, { env: { ...process.env, ...this.#env } });
    this.#child.on("exit", (code, signal) => {
      if (this.#mayEnd) return;
      console.error(`The subscriber's process ended by itself: ${signal ?? `exit code ${code}`}.`);
      process.exit(1);
    });
    await new Promise<void>((resolve) => {
      this.#child.on("message", (told: Told) => {
        this.#hear(told);
        if (told.kind === "listening") resolve();
      });
    });
  }

  send(command: Command): void {
    // Ignore a failed send: the process has ended, and the "exit" listener handles that.
    this.#child.send(command, () => {});
  }

  /** Sends SIGKILL. Resolves when the process is gone and all its messages are handled. */
  async kill(): Promise<void> {
    await this.#end(() => this.#child.kill("SIGKILL"));
  }

  /** Asks the process to end. Resolves when it has ended. */
  async close(): Promise<void> {
    await this.#end(() => this.send("close"));
  }

  async #end(end: () => void): Promise<void> {
    this.#mayEnd = true;
    const gone = Promise.all([once(this.#child, "exit"), once(this.#child, "disconnect")]);
    end();
    await gone;
  }
}
