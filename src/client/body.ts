// The body of an answer: how the client reads it.

import { parseExactly } from "../models/exact-json.ts";
import { mostShown } from "./redact.ts";

/** The body of an answer. */
export interface Body {
  /** The parsed JSON body, or the text of a body that is not JSON. `undefined` if the body is empty. */
  readonly value: unknown;
  /** `empty` has no byte, and `blank` only white space. `cut` is the text of a body that was longer than `maxResponseBytes`, so that its end is missing. */
  readonly kind: "json" | "text" | "cut" | "blank" | "empty";
  /** The text of a JSON body that is too long for an error to show as JSON. */
  readonly long?: string;
}

export type BodyReader = ReadableStreamDefaultReader<Uint8Array>;

/**
 * Reads a body, and parses it as JSON if possible. The content type does not matter.
 *
 * @param most - the longest body to read, in bytes
 */
export async function readBody(body: BodyReader | string, most: number): Promise<Body> {
  const text = typeof body === "string" ? body : await readText(body, most);
  if (typeof text !== "string") return text;
  if (text.length > most) return { value: text.slice(0, most), kind: "cut" };
  try {
    const value = parseExactly(text);
    return text.length > mostShown ? { value, kind: "json", long: text } : { value, kind: "json" };
  } catch {
    if (text.trim() !== "") return { value: text, kind: "text" };
    return { value: undefined, kind: text === "" ? "empty" : "blank" };
  }
}

let utf8: TextDecoder | undefined;

/** Returns the text, or the body that it is if it is too long. */
async function readText(reader: BodyReader, most: number): Promise<string | Body> {
  // Some test environments load this file without a TextDecoder.
  utf8 ??= new TextDecoder();

  let text = "";
  let bytes = 0;
  let last: Uint8Array | undefined;
  // Use a stream decoder only for a body of several chunks: `utf8` decodes a single chunk ten times faster.
  let decoder: TextDecoder | undefined;
  while (bytes <= most) {
    const { done, value } = await reader.read();
    if (done) return text + (decoder ?? utf8).decode(last);
    if (last) {
      decoder ??= new TextDecoder();
      text += decoder.decode(last, { stream: true });
    }
    last = value;
    bytes += value.byteLength;
  }
  // Free the connection. Do not wait, and ignore errors.
  reader.cancel().catch(() => {});
  return { value: text + (decoder ?? utf8).decode(last), kind: "cut" };
}
