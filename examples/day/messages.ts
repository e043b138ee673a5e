import type { Contents } from "./contents.ts";

/** Messages from the subscriber's process. Messages that it sent just before the kill still arrive. */
export type Told =
  /** The contents of its file at its start. */
  | { readonly kind: "opened"; readonly file: Contents }
  | { readonly kind: "listening" }
  | { readonly kind: "received" | "duplicate"; readonly eventId: string; readonly ref: string | null }
  /** The start of a callback. */
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
      /** In ms. */
      readonly retryIn: number;
    }
  /** An event is done, and its result and its change of the calendar are on disk. */
  | { readonly kind: "done"; readonly eventId: string; readonly change: string | undefined }
  /** The last message: the contents of its file after it has closed. */
  | { readonly kind: "closed"; readonly file: Contents };

/** Commands for the subscriber: fail the next confirmation, let callbacks hang from now on, or end. */
export type Command = "fail-once" | "hang" | "close";
