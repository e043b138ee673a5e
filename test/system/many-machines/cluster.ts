import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { History } from "./history.ts";
import type { MachineOptions } from "./machine.ts";

const program = join(import.meta.dirname, "machine.ts");

/** One process of a cluster. */
export interface Machine {
  readonly child: ChildProcess;
  readonly pid: number;
  /** Only a web machine has a port. */
  readonly port: number;
}

/** Several processes on one store. All of them log their actions to one file. The processes end with the test. */
export class Cluster {
  readonly #options: Omit<MachineOptions, "role" | "log" | "ahead">;
  readonly #directory = mkdtempSync(join(tmpdir(), "stayhook-machines-"));
  readonly #log = join(this.#directory, "log");
  readonly #machines = new Set<Machine>();
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 64 });

  constructor(options: Omit<MachineOptions, "role" | "log" | "ahead">, { onTestFinished }: TestContext) {
    this.#options = options;
    appendFileSync(this.#log, "");
    onTestFinished(() => {
      this.#agent.destroy();
      for (const { child } of this.#machines) child.kill("SIGKILL");
      rmSync(this.#directory, { recursive: true, force: true });
    });
  }

  get history(): History {
    return new History(readFileSync(this.#log, "latin1"));
  }

  /** @param ahead - how far the clock is ahead of the clocks of the other machines, in ms */
  async start(role: MachineOptions["role"], ahead = 0): Promise<Machine> {
    const options: MachineOptions = { ...this.#options, role, log: this.#log, ahead };
    const child = fork(program, [JSON.stringify(options)], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
    const ended = once(child, "exit").then(([code]) => {
      throw new Error(`a ${role} process ended by itself, with ${code}`);
    });
    const [{ port = 0 }] = (await Promise.race([once(child, "message"), ended])) as [{ port?: number }];
    ended.catch(() => {});
    const machine = { child, pid: child.pid as number, port };
    this.#machines.add(machine);
    return machine;
  }

  /** Resolves to the status of the answer, or to 0 if there was no answer. */
  post({ port }: Machine, eventId: string, bookingCode: string): Promise<number> {
    const body = JSON.stringify({ eventId, bookingCode, listingId: null, timestamp: "2026-03-01T10:00:00Z" });
    return new Promise((resolve) => {
      request({ port, host: "127.0.0.1", method: "POST", agent: this.#agent })
        .once("response", (response) =>
          response.resume().once("end", () => resolve(response.statusCode ?? 0)),
        )
        .once("error", () => resolve(0))
        .end(body);
    });
  }

  /** Kills the machine with SIGKILL. Resolves when the process is gone. */
  async kill(machine: Machine): Promise<void> {
    const gone = once(machine.child, "exit");
    machine.child.kill("SIGKILL");
    await gone;
    this.#machines.delete(machine);
    this.#say("killed", machine);
  }

  freeze(machine: Machine): void {
    machine.child.kill("SIGSTOP");
    this.#say("frozen", machine);
  }

  wake(machine: Machine): void {
    this.#say("woken", machine);
    machine.child.kill("SIGCONT");
  }

  /** Resolves to its `webhooks.health().state`. */
  async health({ child }: Machine): Promise<string> {
    const answered = once(child, "message");
    child.send("health");
    return (await answered)[0].health;
  }

  /** Resolves when the check passes on the history so far. */
  until(check: (history: History) => void | Promise<void>): Promise<void> {
    return eventually(() => check(this.history));
  }

  #say(what: string, { pid }: Machine): void {
    appendFileSync(this.#log, `${pid} ${what}\n`);
  }
}

export const eventOf = (bookingCode: string) => ({ eventId: randomUUID(), bookingCode });

/** Runs the items in order, `atOnce` at a time. */
export async function inTurns<T>(items: readonly T[], atOnce: number, run: (item: T) => Promise<void>) {
  const rest = items.values();
  const runner = async () => {
    for (const item of rest) await run(item);
  };
  await Promise.all(Array.from({ length: atOnce }, runner));
}
