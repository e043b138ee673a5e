import { cutToBytes, errorText } from "./errors.ts";

/** How serious a line is. */
export type LogLevel = "debug" | "info" | "warn" | "error";

const logLevels = ["debug", "info", "warn", "error"] as const satisfies readonly LogLevel[];

/** The fields of a log line beside its message. Unlike in the message, values from outside are not escaped. */
export interface LogDetails {
  /** The thrown value. */
  readonly error?: unknown;
  /** The id of the event in lower case. */
  readonly eventId?: string | undefined;
  /** `booking:<code>` or `listing:<id>`. */
  readonly ref?: string | null | undefined;
  /** The event's type, such as `booking.Confirmed`. */
  readonly type?: string | undefined;
  /** The number of the attempt, from 1. */
  readonly attempt?: number | undefined;
  /** Why an attempt failed. */
  readonly reason?: string | undefined;
}

/** One log line, as a logger function gets it. */
export interface LogEntry extends LogDetails {
  /** How serious the line is. */
  readonly level: LogLevel;
  /** One line of text. It ends with the error's own text, where there is an error. */
  readonly message: string;
  /** How many lines of this kind were left out since the last one. */
  readonly suppressed?: number | undefined;
}

/** A logger with a method for each level. `console` is one. It is called with the message alone. */
export interface ConsoleLike {
  /** Writes a line that helps to find a fault. */
  debug(message: string): void;
  /** Writes a line about normal work. */
  info(message: string): void;
  /** Writes a line about a fault that the package handles itself. */
  warn(message: string): void;
  /** Writes a line about a fault that needs a fix. */
  error(message: string): void;
}

/**
 * The target of this package's log lines: a console-like object, or a function. No secret is ever passed to it. An
 * error that it throws is ignored.
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

/** The details that this package passes with a line. */
export interface LineDetails extends LogDetails {
  /** The user's own code threw `error`. The console then shows its stack. A `reason` of `callback` says the same. */
  readonly fromUserCode?: boolean | undefined;
}

interface Kind {
  until: number;
  suppressed: number;
  last: { readonly level: LogLevel; readonly message: string; readonly details: LineDetails | undefined };
}

/** The time between two lines of a kind that a stranger can cause, ms. */
const limitInterval = 60_000;
/** More kinds than this share one limit, so that they cannot fill the memory. */
const maxKinds = 100;
const maxMessageBytes = 8192;
const maxFrames = 30;

/** Writes the log lines of this package. It never throws. */
export class Log {
  readonly #logger: Logger | undefined;
  readonly #kinds = new Map<string, Kind>();

  /** @param logger - default: warnings and errors to the console */
  constructor(logger?: Logger | undefined) {
    this.#logger = logger;
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

  /** Writes a line of this kind at most once a minute. The next line says how many were left out. */
  limited(kind: string, level: LogLevel, message: string, details?: LineDetails): void {
    const now = Date.now();
    const name = this.#kinds.has(kind) || this.#kinds.size < maxKinds ? kind : "";
    const known = this.#kinds.get(name);
    const last = { level, message, details };
    // A clock that was set back ends the limit.
    if (known && now >= known.until - limitInterval && now < known.until) {
      known.suppressed += 1;
      known.last = last;
      return;
    }
    this.#kinds.set(name, { until: now + limitInterval, suppressed: 0, last });
    this.#write(level, message, details, known?.suppressed);
  }

  /** Writes how many lines of each kind were left out since the last one. */
  close(): void {
    for (const { last, suppressed } of this.#kinds.values())
      if (suppressed > 0) this.#write(last.level, last.message, last.details, suppressed);
    this.#kinds.clear();
  }

  #write(level: LogLevel, text: string, details: LineDetails = {}, suppressed = 0): void {
    try {
      const { fromUserCode, ...shown } = details;
      const { error } = shown;
      const left = suppressed > 0 ? ` (${suppressed} lines like this were left out)` : "";
      const said = error === undefined ? "" : `: ${errorText(error)}`;
      const message = cutToBytes(oneLine(`stayhook: ${text}${left}${said}`), maxMessageBytes);
      if (typeof this.#logger === "function") {
        const entry = { level, message, ...shown, ...(suppressed > 0 && { suppressed }) };
        const given = Object.entries(entry).filter(([, value]) => value !== undefined);
        ignoreRejection(this.#logger(Object.fromEntries(given) as unknown as LogEntry));
      } else if (this.#logger) {
        ignoreRejection(this.#logger[level](message));
      } else if (level === "warn" || level === "error") {
        const stack = fromUserCode || shown.reason === "callback" ? framesOf(error) : "";
        // One argument: a console formats the first of several.
        console[level](message + stack);
      }
    } catch {
      // A logger that throws must not take an event down with it.
    }
  }
}

// A logger may be an async function.
function ignoreRejection(result: unknown): void {
  if (result instanceof Promise) result.catch(() => {});
}

/** Escapes the characters that start a new line, control a terminal, or change the order of the text shown. */
export function oneLine(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cs}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/gu,
    (character) => escapes[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

const escapes: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** The frames of an error's stack, a line each, without those of this package. */
function framesOf(error: unknown): string {
  if (!(error instanceof Error) || typeof error.stack !== "string") return "";
  // Without the message, in which a stranger could write frames.
  const { message, stack } = error;
  const frames = stack.slice(stack.indexOf(message) + message.length).match(/^ *at .+$/gm) ?? [];
  // If this file runs from its source, it is the first frame.
  const here = /^.*\n *at .*?((?:file:\/\/)?\/\S*\/)logger\.ts:\d+/.exec(new Error().stack ?? "")?.[1];
  const isOwn = (frame: string): boolean =>
    /[\\/]node_modules[\\/]stayhook[\\/]/.test(frame) || (here !== undefined && frame.includes(here));
  return frames
    .filter((frame) => !isOwn(frame))
    .slice(0, maxFrames)
    .map((frame) => `\n    ${oneLine(frame.trim())}`)
    .join("");
}
