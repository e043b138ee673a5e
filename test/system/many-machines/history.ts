import { closeSync, openSync, readSync } from "node:fs";

/** An action that a machine has logged, or that the test did to the machine. */
interface Line {
  readonly pid: number;
  /**
   * A callback logs `began`, and then one end: `ended`, `cut` (its signal aborted), or `late` (it ended after its
   * signal aborted). The handler logs `done`, `failed`, `parked` and `warned`. The test logs `killed`, `frozen` and
   * `woken` for a process.
   */
  readonly what: string;
  readonly eventId: string;
  readonly booking: string;
}

/** The actions in order. The order is right because a machine writes each line synchronously. */
export class History {
  readonly lines: Line[] = [];
  readonly #file: number;
  #rest = "";
  #position = 0;

  constructor(file: string) {
    this.#file = openSync(file, "a+");
  }

  /** Reads the lines that were written since the last call. */
  readOn(): void {
    const piece = Buffer.alloc(1 << 20);
    for (;;) {
      const length = readSync(this.#file, piece, 0, piece.length, this.#position);
      if (length === 0) return;
      this.#position += length;
      // The last line may be incomplete, so keep it for the next read.
      const lines = (this.#rest + piece.toString("latin1", 0, length)).split("\n");
      this.#rest = lines.pop() as string;
      for (const line of lines) {
        const [pid, what = "", eventId = "", booking = ""] = line.split(" ");
        this.lines.push({ pid: Number(pid), what, eventId, booking });
      }
    }
  }

  close(): void {
    closeSync(this.#file);
  }

  of(what: string, eventId?: string): Line[] {
    return this.lines.filter((line) => line.what === what && (eventId ?? line.eventId) === line.eventId);
  }

  /** Counts how often each event has an entry `what`. */
  count(what: string): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { eventId } of this.of(what)) counts.set(eventId, (counts.get(eventId) ?? 0) + 1);
    return counts;
  }

  /**
   * Returns bookings whose callback began while another callback of the same booking ran. A killed or frozen process
   * runs nothing. After a frozen process wakes, it cancels the callbacks that it began before.
   */
  overlaps(): string[] {
    const found: string[] = [];
    const running = new Map<string, Line>();
    const drop = (pid: number) => {
      for (const [booking, line] of running) if (line.pid === pid) running.delete(booking);
    };
    for (const line of this.lines) {
      const { what, booking, pid } = line;
      if (what === "killed" || what === "frozen") drop(pid);
      if (what === "began") {
        const other = running.get(booking);
        if (other) found.push(`${booking}: ${pid} beside ${other.pid}`);
        running.set(booking, line);
      }
      const current = running.get(booking);
      const ends = what === "ended" || what === "cut" || what === "late";
      if (ends && current?.eventId === line.eventId && current.pid === pid) running.delete(booking);
    }
    return found;
  }

  #tell(eventId: string): string {
    const lines = this.lines.filter((line) => line.eventId === eventId);
    return `${eventId}: ${lines.map(({ pid, what, booking }) => `${pid} ${what} ${booking}`).join(", ")}`;
  }

  /**
   * Returns events whose callback began twice. Ignores an event if one of the two processes was killed or frozen: a
   * process that wakes may begin an event that it claimed before it was frozen.
   */
  repeatedForNothing(): string[] {
    const harmed = new Set(
      this.lines.filter(({ what }) => what === "killed" || what === "frozen").map(({ pid }) => pid),
    );
    const begun = new Map<string, number>();
    const found: string[] = [];
    for (const { eventId, pid } of this.of("began")) {
      const before = begun.get(eventId);
      if (before !== undefined && !harmed.has(before) && !harmed.has(pid)) found.push(this.#tell(eventId));
      begun.set(eventId, pid);
    }
    return found;
  }
}
