/** One thing that is wrong with a value. */
export interface Issue {
  /** The property names and list indexes that lead to the wrong part. Empty for the value itself. */
  readonly path: readonly (string | number)[];
  /** What is wrong with that part. */
  readonly message: string;
}

/** The base class of every error that this package throws on purpose. */
export class StayhookError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    // Each class sets its name itself, because minifiers rename classes.
    this.name = "StayhookError";
  }
}

/**
 * An argument or option cannot be used. Nothing was sent or stored.
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
  /** Each field that is wrong. An issue never shows the value, which may be a secret. */
  readonly issues: readonly Issue[];

  constructor(issues: Issue | readonly Issue[]) {
    const list = Array.isArray(issues) ? (issues as readonly Issue[]) : [issues as Issue];
    super(list.map(describeIssue).join("; "));
    this.name = "InvalidArgumentError";
    this.issues = list;
  }
}

/**
 * A write that was given to `event.atomically` broke the rules of its store: it returned a promise where writes
 * are synchronous, ended the store's transaction or left it unusable, or took too long. `settle` rejects with this error,
 * and the attempt has failed.
 */
export class InvalidWriteError extends StayhookError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "InvalidWriteError";
  }
}

/** Such as `endpoints.bookings: must be https`. The message alone if it names the field itself. */
export function describeIssue({ path, message }: Issue): string {
  const field = path.join(".");
  return field === "" || message.includes(`\`${field}\``) ? message : `${field}: ${message}`;
}
