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
  readonly lines: readonly Line[];

  /** @param log - the text of the file that all machines write to. Its last line may be incomplete */
  constructor(log: string) {
    this.lines = log
      .split("\n")
      .slice(0, -1)
      .map((line) => {
        const [pid, what = "", eventId = "", booking = ""] = line.split(" ");
        return { pid: Number(pid), what, eventId, booking };
      });
  }

  of(what: string, eventId?: string): Line[] {
    return this.lines.filter((line) => line.what === what && (eventId ?? line.eventId) === line.eventId);
  }

  /** Returns the events that ended as done more than once. */
  doneAgain(): string[] {
    const done = this.of("done").map(({ eventId }) => eventId);
    return done.filter((eventId, index) => done.indexOf(eventId) !== index);
  }

  /**
   * Returns bookings whose callback began while another callback of the same booking ran. A killed or frozen process
   * runs nothing. After a frozen process wakes, it cancels the callbacks that it began before.
   */
  overlaps(): string[] {
    const found: string[] = [];
    const running = new Map<string, Line>();
    for (const line of this.lines) {
      const { what, booking, pid } = line;
      const current = running.get(booking);
      if (what === "killed" || what === "frozen")
        for (const [other, { pid: runner }] of running) if (runner === pid) running.delete(other);
      if (what === "began") {
        if (current) found.push(`${booking}: ${pid} beside ${current.pid}`);
        running.set(booking, line);
      }
      const ends = what === "ended" || what === "cut" || what === "late";
      if (ends && current?.eventId === line.eventId && current.pid === pid) running.delete(booking);
    }
    return found;
  }

  /**
   * Returns events whose callback began twice. Ignores an event if one of the two processes was killed or frozen: a
   * process that wakes may begin an event that it claimed before it was frozen.
   */
  repeatedForNothing(): string[] {
    const harmed = new Set([...this.of("killed"), ...this.of("frozen")].map(({ pid }) => pid));
    const begun = new Map<string, number>();
    return this.of("began").flatMap(({ eventId, pid }) => {
      const before = begun.get(eventId) ?? pid;
      const isFirst = !begun.has(eventId);
      begun.set(eventId, pid);
      if (isFirst || harmed.has(before) || harmed.has(pid)) return [];
      const lines = this.lines.filter((line) => line.eventId === eventId);
      return [`${eventId}: ${lines.map((line) => `${line.pid} ${line.what} ${line.booking}`).join(", ")}`];
    });
  }
}
