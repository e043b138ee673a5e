import { accountOf } from "./account.ts";
import { cutToBytes, errorText, framesOf, withoutWords } from "./error-text.ts";

/** The severity of a log line. */
export type LogLevel = "debug" | "info" | "warn" | "error";

const logLevels = ["debug", "info", "warn", "error"] as const satisfies readonly LogLevel[];

/** The fields of a log line besides its message. Control characters in these fields are not escaped. */
export type LogDetails = {
  /** The thrown value. If its message has words of the platform, it is a copy without them, because they may name a guest. */
  readonly error?: unknown;
  /** The id of the event in lower case. */
  readonly eventId?: string | undefined;
  /** The record of the event: `booking:<code>` or `listing:<id>`. */
  readonly ref?: string | null | undefined;
  /** The account of the event or request, in a handler or client with accounts. */
  readonly account?: string | undefined;
  /** The event's type, such as `booking.Confirmed`. */
  readonly type?: string | undefined;
  /** The number of the attempt, from 1. */
  readonly attempt?: number | undefined;
  /** The reason of a failed attempt, such as `callback`. */
  readonly reason?: string | undefined;
  /** Who changed something in the console, as its `authorize` said. */
  readonly user?: string | undefined;
};

/** One log line, as a logger function gets it. */
export interface LogEntry extends LogDetails {
  /** The severity of the line. */
  readonly level: LogLevel;
  /** One line of text. If there is an `error`, the text ends with the error's message. */
  readonly message: string;
  /** The number of lines of this kind that were left out since the last written line. */
  readonly suppressed?: number | undefined;
}

/** A logger with a method for each level, such as `console`. Each method gets only the message. */
export type ConsoleLike = {
  /** Writes a line that helps to find a fault. */
  debug(message: string): void;
  /** Writes a line about normal work. */
  info(message: string): void;
  /** Writes a line about a fault that the package handles itself. */
  warn(message: string): void;
  /** Writes a line about a fault that needs a fix. */
  error(message: string): void;
};

/**
 * The target of this package's log lines: a console-like object, or a function. The logger never gets a secret.
 * Errors that the logger throws are ignored.
 *
 * @example
 * ```ts
 * const logger: Logger = (entry) => process.stdout.write(`${JSON.stringify(entry)}\n`);
 * ```
 */
export type Logger = ConsoleLike | ((entry: LogEntry) => void);

export function isLogger(value: unknown): value is Logger {
  if (typeof value === "function") return true;
  const logger = Object(value) as Partial<Record<LogLevel, unknown>>;
  return logLevels.every((level) => typeof logger[level] === "function");
}

export interface LineDetails extends LogDetails {
  /** Whether the user's code threw `error`. If `true`, or if `reason` is `callback`, the console shows the stack. */
  readonly fromUserCode?: boolean | undefined;
}

interface Kind {
  until: number;
  suppressed: number;
  last: { readonly level: LogLevel; readonly message: string; readonly details: LineDetails | undefined };
}

/** The shortest time between two lines of one kind, ms. Without a limit, an attacker could flood the log. */
const limitInterval = 60_000;
/** The first `maxKinds` kinds each have their own limit. All further kinds share one limit, which saves memory. */
const maxKinds = 100;
const maxMessageBytes = 8192;
const maxFrames = 30;

/** Writes the log lines of this package. Never throws. */
export class Log {
  readonly #logger: Logger | undefined;
  readonly #kinds = new Map<string, Kind>();

  /** @param logger - Default: writes warnings and errors to the console */
  constructor(logger?: Logger | undefined) {
    this.#logger = logger;
  }

  /** Whether somebody gets debug lines. The console does not. */
  get writesDebug(): boolean {
    return this.#logger !== undefined;
  }

  debug(message: string, details?: LineDetails): void {
    this.#write("debug", message, details);
  }

  info(message: string, details?: LineDetails): void {
    this.#write("info", message, details);
  }

  warn(message: string, details?: LineDetails): void {
    this.#write("warn", message, details);
  }

  error(message: string, details?: LineDetails): void {
    this.#write("error", message, details);
  }

  /** Writes at most one line of a kind per minute. The next line of the kind says how many lines were left out. */
  limited(kind: string, level: LogLevel, message: string, details?: LineDetails): void {
    const now = Date.now();
    const name = this.#kinds.has(kind) || this.#kinds.size < maxKinds ? kind : "";
    const known = this.#kinds.get(name);
    const last = { level, message, details };
    // The limit also ends if the clock was set back.
    if (known && now >= known.until - limitInterval && now < known.until) {
      known.suppressed += 1;
      known.last = last;
      return;
    }
    this.#kinds.set(name, { until: now + limitInterval, suppressed: 0, last });
    this.#write(level, message, details, known?.suppressed);
  }

  /** Writes how many lines of each kind were left out since the last written line of the kind. */
  close(): void {
    for (const { last, suppressed } of this.#kinds.values())
      if (suppressed > 0) this.#write(last.level, last.message, last.details, suppressed);
    this.#kinds.clear();
  }

  #write(level: LogLevel, text: string, details: LineDetails = {}, suppressed = 0): void {
    try {
      const { fromUserCode, ...shown } = details;
      const { error } = shown;
      const left = suppressed > 0 ? ` (${suppressed} similar lines were left out)` : "";
      // In a text of two sentences, a colon would link the error to the second sentence only.
      const said = error === undefined ? "" : `${text.includes(". ") ? "." : ":"} ${errorText(error)}`;
      const message = cutToBytes(oneLine(`stayhook: ${text}${left}${said}`), maxMessageBytes);
      if (typeof this.#logger === "function") {
        const { eventId, ref = null, account = eventId && accountOf({ ref, eventId }) } = shown;
        const entry = {
          ...{ level, message, ...shown, account, error: withoutWords(error) },
          ...(suppressed > 0 && { suppressed }),
        };
        const given = Object.entries(entry).filter(([, value]) => value !== undefined);
        ignoreRejection(this.#logger(Object.fromEntries(given) as unknown as LogEntry));
      } else if (this.#logger) {
        ignoreRejection(this.#logger[level](message));
      } else if (level === "warn" || level === "error") {
        const stack = fromUserCode || shown.reason === "callback" ? stackOf(error) : "";
        // Pass a single argument: with several arguments, the console reads the first argument as a format string.
        console[level](message + stack);
      }
    } catch {
      // An error in the logger must not make an event fail.
    }
  }
}

// A logger may be an async function.
function ignoreRejection(result: unknown): void {
  if (result instanceof Promise) result.catch(() => {});
}

/** Escapes line breaks, and the characters that control a terminal or change the direction of text. */
function oneLine(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cs}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/gu,
    (character) => escapes[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

const escapes: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** The frames of an error's stack without those of this package, one in each line. */
const stackOf = (error: unknown): string =>
  framesOf(error)
    .slice(0, maxFrames)
    .map((frame) => `\n    ${oneLine(frame)}`)
    .join("");
