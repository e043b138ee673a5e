const LONGEST = 2048;

/** The message of whatever was thrown, and the messages of its causes; 2 KiB of UTF-8 at most. Never throws. */
export function errorText(thrown: unknown): string {
  const parts: string[] = [];
  const seen = new Set<unknown>();
  for (let each = thrown; each !== undefined && !seen.has(each) && parts.length < 10; each = causeOf(each)) {
    seen.add(each);
    parts.push(ownText(each));
  }
  return cut(parts.join(" <- ") || "undefined was thrown");
}

function ownText(thrown: unknown): string {
  try {
    return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
  } catch {
    return "something that cannot be shown";
  }
}

function causeOf(thrown: unknown): unknown {
  try {
    return thrown instanceof Error ? (thrown.cause ?? undefined) : undefined;
  } catch {
    return undefined;
  }
}

function cut(text: string): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= LONGEST) return text;
  // Three bytes for the ellipsis; a character that was cut in two is dropped.
  return `${new TextDecoder().decode(bytes.subarray(0, LONGEST - 3)).replace(/\uFFFD+$/, "")}…`;
}
