import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, vi } from "vitest";
import { built, root } from "../built.ts";

/** An example as a process of its own, and what it has printed. */
export class ExampleProcess {
  readonly #child;
  #output = "";

  /** @param hear - told of what it prints, as it does */
  constructor(file: string, env: NodeJS.ProcessEnv, hear: (text: string) => void) {
    built();
    this.#child = spawn(process.execPath, [file], {
      cwd: root,
      env: { ...process.env, NO_COLOR: "1", ...env },
    });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        this.#output += chunk;
        hear(chunk);
      });
    }
  }

  /** Where it takes notifications. */
  async url(): Promise<string> {
    const port = await vi.waitFor(
      () => {
        const [, said] = /^listening on port (\d+)$/m.exec(this.#output) ?? [];
        expect(said, this.#output).toBeDefined();
        return said;
      },
      { timeout: 30_000, interval: 50 },
    );
    return `http://127.0.0.1:${port}/?key=s3cret`;
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /** Asks it to end, and resolves to its exit code. */
  async end(): Promise<number | null> {
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    return (await exited)[0];
  }
}
