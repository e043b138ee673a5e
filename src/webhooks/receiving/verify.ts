/** What {@link Verify} may look at. */
export interface VerifyRequest {
  /** The HTTP method. */
  readonly method: string;
  /** Path and query, or the whole URL, as the server has it. */
  readonly url: string;
  /** The headers of the request. */
  readonly headers: Headers;
  /** The topic that the endpoint was told it serves, where it was. */
  readonly topic: string | undefined;
  /**
   * The body's bytes. Rejects where they cannot be had: larger than `maxBodyBytes`, not here in time, or
   * already read by a body parser in front.
   */
  readonly rawBody: () => Promise<Uint8Array>;
}

/**
 * Decides whether a request may come in: `true`, and nothing else, lets it. `false`, or throwing, answers 401;
 * not deciding within `replyWithin` answers 503.
 *
 * @example
 * ```ts
 * verify: ({ headers }) => headers.get("x-forwarded-client-cert-ok") === "1",
 * ```
 */
export type Verify = (request: VerifyRequest) => boolean | Promise<boolean>;

// `require` loads another copy of the package than `import`. This symbol is the same in both.
const WEAKNESS = Symbol.for("stayhook.weakness");

/** Marks a `verify` that strangers may get past. A handler made with it logs the text as a warning. */
export function withWeakness(verify: Verify, weakness: string): Verify {
  return Object.defineProperty(verify, WEAKNESS, { value: weakness });
}

export function weaknessOf(verify: Verify): string | undefined {
  return (verify as { readonly [WEAKNESS]?: string })[WEAKNESS];
}
