/** Where this package writes what a person should see. `console` is one. No secret is ever passed to it. */
export interface Logger {
  debug(message: string, ...details: unknown[]): void;
  info(message: string, ...details: unknown[]): void;
  warn(message: string, ...details: unknown[]): void;
  error(message: string, ...details: unknown[]): void;
}

export const logLevels = ["debug", "info", "warn", "error"] as const satisfies readonly (keyof Logger)[];

export function isLogger(value: unknown): value is Logger {
  const logger = Object(value) as Partial<Record<keyof Logger, unknown>>;
  return logLevels.every((level) => typeof logger[level] === "function");
}

const nothing = (): void => {};

/** Writes nothing. */
export const silentLogger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** The default of the client and of the webhook handler: warnings and errors go to the console. */
export const consoleLogger: Logger = {
  debug: nothing,
  info: nothing,
  warn: (message, ...details) => console.warn(message, ...details),
  error: (message, ...details) => console.error(message, ...details),
};

/** A user's logger that throws must not take an event down with it. */
export function safeLogger(logger: Logger): Logger {
  const safe =
    (level: keyof Logger) =>
    (message: string, ...details: unknown[]): void => {
      try {
        logger[level](message, ...details);
      } catch {
        // there is nowhere left to say it
      }
    };
  return { debug: safe("debug"), info: safe("info"), warn: safe("warn"), error: safe("error") };
}
