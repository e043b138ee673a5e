import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** A named child process of this example. `hear` gets each line of its output. It ends with the main process. */
export class Started {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #mayEnd = false;

  constructor(name: string, program: string, env: NodeJS.ProcessEnv, hear: (line: string) => void) {
    this.name = name;
    this.#child = spawn(process.execPath, [join(import.meta.dirname, program)], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "inherit"],
    });
    createInterface({ input: this.#child.stdout as NodeJS.ReadableStream }).on("line", hear);
    process.once("exit", () => this.#child.kill("SIGKILL"));
    this.#ended = once(this.#child, "close").then(([code, signal]) => {
      if (this.#mayEnd) return;
      console.error(`${name} ended by itself: ${signal ?? `exit code ${code}`}`);
      process.exit(1);
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    this.#mayEnd = true;
    this.#child.kill(signal);
    await this.#ended;
  }
}
