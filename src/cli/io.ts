import type { Readable } from "node:stream";

/** A stream that is written to, and may be a terminal. */
export interface Sink extends NodeJS.WritableStream {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
}

/** The streams, environment and signal of a process. Tests run commands without one. */
export interface Io {
  readonly stdin: Readable & { readonly isTTY?: boolean | undefined };
  readonly stdout: Sink;
  readonly stderr: Sink;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborts when the user wants it to end (Ctrl-C, SIGTERM). */
  readonly signal: AbortSignal;
}
