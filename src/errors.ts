import { brand } from "./copies.ts";

/** One problem with a value. */
export interface Issue {
  /** The property names and list indexes that lead to the wrong part. Empty if the whole value is wrong. */
  readonly path: readonly (string | number)[];
  /** What is wrong with the value, such as `must not be empty`. */
  readonly message: string;
}

/**
 * The base class of every error that this package throws on purpose. You mostly get a subclass. `StayhookError` itself often comes
 * from a store, for example because the database is out of reach, its tables have another version, or the store is closed. The
 * message says what failed and what to do, and `cause` is the error of the runtime or of the driver, if there is one.
 */
export class StayhookError extends Error {
  static {
    brand(this, "StayhookError");
  }
  /** The name of the class. It is a literal, because minifiers rename classes and so change `constructor.name`. */
  override name = "StayhookError";
  /** The kind of error, such as `not_found`. Each class has its own code. */
  readonly code: string = "stayhook_error";
}

/**
 * An argument or option is not valid. Nothing was sent or stored. Asynchronous functions reject with this error instead of
 * throwing it. `issues` has a `path` and a `message` for each wrong field. If the message is `must not be empty (is an environment
 * variable unset?)`, set the environment variable that your code reads, because you passed `""`.
 *
 * @example
 * ```ts
 * try {
 *   createWebhookHandler(options);
 * } catch (error) {
 *   if (error instanceof InvalidArgumentError) console.error(error.issues);
 * }
 * ```
 */
export class InvalidArgumentError extends StayhookError {
  static {
    brand(this, "InvalidArgumentError");
  }
  override name = "InvalidArgumentError";
  override readonly code = "invalid_argument" as const;
  /** The problems, one for each wrong field. An issue shows no value that may be a secret. */
  readonly issues: readonly Issue[];

  constructor(issues: Issue | readonly Issue[]) {
    const list = Array.isArray(issues) ? (issues as readonly Issue[]) : [issues as Issue];
    super(list.map(describeIssue).join("; "));
    this.issues = list;
  }
}

/**
 * A function that the callback passed to `event.atomically` broke a rule of the store: it returned a promise or a lazy query to a
 * synchronous store such as `sqliteStore`, kept its `tx` after it had ended, ended the store's transaction or left it unusable, or
 * took too long. The attempt fails with the reason `callback`, and the store rolls back all its writes.
 *
 * For `sqliteStore`, remove `async`. Send mail and call other services outside the function.
 */
export class InvalidWriteError extends StayhookError {
  static {
    brand(this, "InvalidWriteError");
  }
  override name = "InvalidWriteError";
  override readonly code = "invalid_write" as const;
}

/** Returns the kind of a wrong value for a message, such as `a string` or `undefined`. Never shows the value itself. */
export function describeKind(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (Array.isArray(value)) return "a list";
  if (value === "") return "an empty string";
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "an invalid Date" : "a Date";
  if (Number.isNaN(value)) return "NaN";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** Returns a text such as `endpoints.bookings: must be https`. Omits the field if the message already names it. */
export function describeIssue({ path, message }: Issue): string {
  const field = path.join(".");
  return field === "" || message.includes(`\`${field}\``) ? message : `${field}: ${message}`;
}
