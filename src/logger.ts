import { errorText } from "./error-text.ts";

/** How serious a line is. */
export type LogLevel = "debug" | "info" | "warn" | "error";

export const logLevels = ["debug", "info", "warn", "error"] as const satisfies readonly LogLevel[];

/** What a log line is about. */
export interface LogDetails {
  readonly error?: unknown;
  readonly eventId?: string | undefined;
  readonly ref?: string | null | undefined;
  readonly type?: string | undefined;
  readonly attempt?: number | undefined;
  readonly reason?: string | undefined;
}

/** One log line, as a logger function gets it. */
export interface LogEntry extends LogDetails {
  readonly level: LogLevel;
  /** One line of text. It ends with the error's own text, where there is an error. */
  readonly message: string;
  /** How many lines of this kind were left out since the last one. */
  readonly suppressed?: number | undefined;
}

/** A logger with a method for each level. `console` is one. It is called with the message alone. */
export interface ConsoleLike {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** Where this package writes what a person should see: a console-like object, or a function. No secret is ever passed to it. */
export type Logger = ConsoleLike | ((entry: LogEntry) => void);

export function isLogger(value: unknown): value is Logger {
  if (typeof value === "function") return true;
  const logger = Object(value) as Partial<Record<LogLevel, unknown>>;
  return logLevels.every((level) => typeof logger[level] === "function");
}

/** How often a kind of line that a stranger can cause is written, ms. */
const LIMIT = 60_000;

/** What the parts of this package write their lines to. It never throws. */
export class Log {
  readonly #logger: Logger | undefined;
  readonly #kinds = new Map<string, { until: number; suppressed: number; last: LogEntry }>();

  /** @param logger - default: warnings and errors to the console */
  constructor(logger?: Logger | undefined) {
    this.#logger = logger;
  }

  debug(message: string, details?: LogDetails): void {
    this.#write("debug", message, details);
  }

  info(message: string, details?: LogDetails): void {
    this.#write("info", message, details);
  }

  warn(message: string, details?: LogDetails): void {
    this.#write("warn", message, details);
  }

  error(message: string, details?: LogDetails): void {
    this.#write("error", message, details);
  }

  /** Writes a line of this kind at most once a minute; the next one says how many were left out. */
  limited(kind: string, level: LogLevel, message: string, details?: LogDetails): void {
    const now = Date.now();
    const known = this.#kinds.get(kind);
    if (known && now >= known.until - LIMIT && now < known.until) {
      known.suppressed += 1;
      known.last = { level, message, ...details };
      return;
    }
    this.#kinds.set(kind, { until: now + LIMIT, suppressed: 0, last: { level, message } });
    this.#write(level, message, details, known?.suppressed);
  }

  /** Says how many lines were left out and not yet told. */
  close(): void {
    for (const { last, suppressed } of this.#kinds.values()) {
      if (suppressed > 0) this.#write(last.level, last.message, last, suppressed);
    }
    this.#kinds.clear();
  }

  #write(level: LogLevel, text: string, details: LogDetails = {}, suppressed = 0): void {
    const error = details.error === undefined ? "" : `: ${errorText(details.error)}`;
    const left = suppressed > 0 ? ` (${suppressed} more like this were left out)` : "";
    const message = `stayhook: ${text}${left}${error}`;
    try {
      if (typeof this.#logger === "function") {
        this.#logger({ ...details, level, message, ...(suppressed > 0 && { suppressed }) });
      } else if (this.#logger) {
        this.#logger[level](message);
      } else if (level === "warn" || level === "error") {
        console[level]("%s", message);
      }
    } catch {
      // A logger that throws must not take an event down with it.
    }
  }
}
