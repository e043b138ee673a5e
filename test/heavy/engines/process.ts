import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, vi } from "vitest";
import { built, root } from "../../examples/built.ts";

/** An example in its own process, and its output. */
export class ExampleProcess {
  readonly #child;
  #output = "";

  /** @param hear - gets the output as it arrives */
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

  /** Returns the URL for notifications. */
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

  /** Sends SIGTERM. Resolves to the exit code. */
  async end(): Promise<number | null> {
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    return (await exited)[0];
  }
}
