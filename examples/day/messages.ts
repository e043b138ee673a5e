import type { Contents } from "./contents.ts";

/** What the subscriber's process tells of, as it happens. What it told before it was killed counts. */
export type Told =
  /** What it found in its file, before it does anything. */
  | { readonly kind: "opened"; readonly file: Contents }
  | { readonly kind: "listening" }
  | { readonly kind: "received" | "duplicate"; readonly eventId: string; readonly ref: string | null }
  /** A callback. */
  | {
      readonly kind: "begun";
      readonly eventId: string;
      readonly type: string;
      readonly attempt: number;
      readonly text: string;
    }
  | {
      readonly kind: "failed";
      readonly eventId: string;
      readonly type: string | undefined;
      readonly error: string;
      /** ms */
      readonly retryIn: number;
    }
  /** An event was handled to its end, and that is on disk, with what it changed in the calendar. */
  | { readonly kind: "done"; readonly eventId: string; readonly change: string | undefined }
  /** The last: what is in its file when it has closed. */
  | { readonly kind: "closed"; readonly file: Contents };

/** What it is told: let the next confirmation fail; let callbacks hang from now on; come to an end. */
export type Command = "fail-once" | "hang" | "close";
