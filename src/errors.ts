/** One thing that is wrong with a value: where it stands in it, and what is wrong there. */
export interface Issue {
  /** Property names and list indexes from the outside in; empty for the value itself. */
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** What every error that this package throws on purpose extends. */
export class StayhookError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    // Set by hand in each class: minifiers rename classes.
    this.name = "StayhookError";
  }
}

/**
 * An argument or option cannot be used. Thrown or rejected with before anything is sent or stored.
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
  /** Each field that is wrong. Never holds the value itself, which may be a secret. */
  readonly issues: readonly Issue[];

  constructor(issues: Issue | readonly Issue[]) {
    const list = Array.isArray(issues) ? (issues as readonly Issue[]) : [issues as Issue];
    super(list.map(describeIssue).join("; "));
    this.name = "InvalidArgumentError";
    this.issues = list;
  }
}

/** `endpoints.bookings: must be https`, or the message alone where it is about the whole value. */
export function describeIssue(issue: Issue): string {
  return issue.path.length === 0 ? issue.message : `${issue.path.join(".")}: ${issue.message}`;
}
