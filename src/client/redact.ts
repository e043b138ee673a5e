import type { Issue } from "../errors.ts";

const blot = "[redacted]";

/** Takes secrets out of text and objects that come from outside. */
export interface Redactor {
  text(text: string): string;
  /** Takes secrets out of the strings and property names of a value that JSON.parse made. Changes it in place. */
  json(value: unknown): unknown;
  headers(headers: Headers): Headers;
  issues(issues: readonly Issue[]): Issue[];
  /** Gives the cause itself if it shows no secret, else a copy of its safe parts. */
  cause(cause: unknown): unknown;
}

/** @param secrets - read again each time, because a running call adds tokens */
export function redactor(secrets: ReadonlySet<string>): Redactor {
  const patterns = new Map<string, RegExp>();
  const text = (input: string): string => {
    let output = input;
    for (const secret of secrets) {
      const pattern = patterns.get(secret) ?? patternOf(secret);
      patterns.set(secret, pattern);
      output = output.replace(pattern, blot);
    }
    return output;
  };
  return {
    text,
    json: (value) => redactJson(value, text),
    headers: (headers) => {
      const copy = new Headers();
      for (const [name, value] of headers) copy.append(name, text(value));
      return copy;
    },
    issues: (issues) =>
      issues.map(({ path, message }) => ({
        path: path.map((key) => (typeof key === "string" ? text(key) : key)),
        message: text(message),
      })),
    cause: (cause) => (showsSecret(cause, text) ? safeCopy(cause, text) : cause),
  };
}

/** Matches the secret as it is, and as JSON and URLs write it. A short secret matches as a whole word only. */
function patternOf(secret: string): RegExp {
  const forms = new Set([secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1)]);
  const any = [...forms].map((form) => form.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&")).join("|");
  return secret.length >= 8
    ? new RegExp(any, "g")
    : new RegExp(`(?<![A-Za-z0-9_])(?:${any})(?![A-Za-z0-9_])`, "g");
}

// Not by recursion: JSON can be nested deeper than calls can.
function redactJson(root: unknown, text: (input: string) => string): unknown {
  const stack: object[] = [];
  const visit = (value: unknown): unknown => {
    if (typeof value === "string") return text(value);
    if (typeof value === "object" && value !== null) stack.push(value);
    return value;
  };
  const safe = visit(root);
  for (let container = stack.pop(); container !== undefined; container = stack.pop()) {
    // By index, because the keys of millions of items would take hundreds of megabytes.
    if (Array.isArray(container))
      for (let index = 0; index < container.length; index++) container[index] = visit(container[index]);
    else redactProperties(container as Record<string, unknown>, visit, text);
  }
  return safe;
}

function redactProperties(
  object: Record<string, unknown>,
  visit: (value: unknown) => unknown,
  text: (input: string) => string,
): void {
  for (const key of Object.keys(object)) {
    const value = object[key];
    const [name, safe] = [text(key), visit(value)];
    if (name !== key) delete object[key];
    if (name === key && safe === value) continue;
    const descriptor = { value: safe, writable: true, enumerable: true, configurable: true };
    Object.defineProperty(object, name, descriptor);
  }
}

const maxParts = 1000;

/** Whether printing the value may show a secret. A value that is too large to search counts as one that does. */
function showsSecret(root: unknown, text: (input: string) => string): boolean {
  const seen = new Set<unknown>();
  const stack: unknown[] = [root];
  while (stack.length > 0) {
    const part = stack.pop();
    if (typeof part === "string" && text(part) !== part) return true;
    if (typeof part !== "object" || part === null || seen.has(part)) continue;
    if (seen.add(part).size > maxParts) return true;
    try {
      if (part instanceof Headers || part instanceof Map || part instanceof Set) stack.push(...part);
      if (typeof Request !== "undefined" && part instanceof Request) stack.push(part.headers, part.url);
      for (const key of Reflect.ownKeys(part))
        stack.push(key, Reflect.getOwnPropertyDescriptor(part, key)?.value);
      if (part instanceof Error) stack.push(part.message, part.stack, part.cause);
    } catch {
      return true;
    }
  }
  return false;
}

function safeCopy(cause: unknown, text: (input: string) => string): unknown {
  if (!(cause instanceof Error)) return typeof cause === "string" ? text(cause) : blot;
  const copy = new Error(text(cause.message));
  copy.name = cause.name;
  copy.stack = text(cause.stack ?? "");
  const { code } = cause as { code?: unknown };
  if (typeof code === "string") Object.assign(copy, { code: text(code) });
  if (typeof code === "number") Object.assign(copy, { code });
  return copy;
}
