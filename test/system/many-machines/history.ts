import { closeSync, openSync, readSync } from "node:fs";

/** Something that a machine has written down, or that was done to it. */
interface Line {
  readonly pid: number;
  /**
   * Of callbacks: `began`; then `ended`, `cut` (its signal aborted), or `late` (it ended after its signal had aborted). Of
   * the handler: `done`, `failed`, `parked`, `warned`. Of a process: `killed`, `frozen`, `woken`.
   */
  readonly what: string;
  readonly eventId: string;
  readonly booking: string;
}

/** What has happened, in its order: who writes a line waits until it is written. */
export class History {
  readonly lines: Line[] = [];
  readonly #file: number;
  #rest = "";
  #position = 0;

  constructor(file: string) {
    this.#file = openSync(file, "a+");
  }

  /** Takes in what was written since. */
  readOn(): void {
    const piece = Buffer.alloc(1 << 20);
    for (;;) {
      const length = readSync(this.#file, piece, 0, piece.length, this.#position);
      if (length === 0) return;
      this.#position += length;
      // A line that is being written is not there yet.
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

  /** How often each event was `what`. */
  count(what: string): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { eventId } of this.of(what)) counts.set(eventId, (counts.get(eventId) ?? 0) + 1);
    return counts;
  }

  /**
   * Bookings whose callback began while another of the same ran. A process that is killed or frozen runs nothing;
   * what it had begun before it was frozen has to end as it finds out.
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
   * Events whose callback began again though no process that had begun it was killed or frozen. (One that was frozen may
   * begin what it had claimed just before, and finds out then.)
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
