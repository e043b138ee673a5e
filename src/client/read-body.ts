import { untilAborted } from "./abort.ts";

/** Bytes of an answer that are read at most. */
export const maxBodyBytes = 10 * 1024 * 1024;

/** An answer's body. */
export interface Body {
  /** Parsed where it is JSON, else its text; `undefined` where it is empty. */
  readonly value: unknown;
  readonly kind: "json" | "text" | "empty";
  /** It was longer than {@link maxBodyBytes}, and is cut off there. */
  readonly truncated: boolean;
}

/** Reads a body to its end, whatever type it declares. */
export async function readBody(response: Response, signal: AbortSignal): Promise<Body> {
  const { text, truncated } = await readText(response, signal);
  if (truncated) return { value: text, kind: "text", truncated };
  if (text.trim() === "") return { value: undefined, kind: "empty", truncated };
  try {
    return { value: JSON.parse(text), kind: "json", truncated };
  } catch {
    return { value: text, kind: "text", truncated };
  }
}

async function readText(
  response: Response,
  signal: AbortSignal,
): Promise<{ text: string; truncated: boolean }> {
  if (!response.body) return { text: await untilAborted(response.text(), signal), truncated: false };
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  let ended = false;
  try {
    while (bytes <= maxBodyBytes) {
      const { done, value } = await untilAborted(reader.read(), signal);
      if (done) {
        ended = true;
        break;
      }
      bytes += value.byteLength;
      text += decoder.decode(value, { stream: true });
    }
  } finally {
    // Gives the connection back; nobody waits for how that goes.
    if (!ended) reader.cancel().catch(() => {});
  }
  return { text: text + decoder.decode(), truncated: !ended };
}
