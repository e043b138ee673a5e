import type { Issue } from "../errors.ts";

const blot = "[redacted]";

/** Removes secrets from texts and objects that come from outside. */
export interface Redactor {
  text(text: string): string;
  /** Removes secrets from the strings and property names of parsed JSON. Changes objects and arrays in place. */
  json(value: unknown): unknown;
  headers(headers: Headers): Headers;
  issues(issues: readonly Issue[]): Issue[];
  /** Returns the cause if it shows no secret, or else a copy of its safe parts. */
  cause(cause: unknown): unknown;
}

/** @param secrets - the redactor reads this set at each use, because a running call may add tokens */
export function redactor(secrets: ReadonlySet<string>): Redactor {
  const known = new Map<string, Forms>();
  const text = (input: string): string => {
    const decoded = decode(input);
    const ranges: Range[] = [];
    for (const secret of secrets) {
      const forms = known.get(secret) ?? formsOf(secret);
      known.set(secret, forms);
      ranges.push(...find(input, decoded, forms));
    }
    return ranges.length === 0 ? input : withoutRanges(input, ranges);
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

/** A secret with fewer characters is redacted only if it is a whole word. */
const shortestInWords = 8;
/** The redactor does not search for a base64 text with fewer characters, because ordinary words could contain it. */
const shortestBase64 = 6;

interface Forms {
  readonly secret: string;
  /** The secret as it appears inside a JSON string. */
  readonly json: string;
  /** The base64 of the secret at byte offsets 0, 1 and 2, without the characters that depend on adjacent bytes. */
  readonly base64: readonly string[];
}

function formsOf(secret: string): Forms {
  const bytes = Array.from(new TextEncoder().encode(secret), (byte) => String.fromCharCode(byte)).join("");
  const base64 = [0, 1, 2].map((before) =>
    btoa("\0".repeat(before) + bytes).slice(
      Math.ceil((before * 8) / 6),
      Math.floor(((before + bytes.length) * 8) / 6),
    ),
  );
  return {
    secret,
    json: JSON.stringify(secret).slice(1, -1),
    base64: base64.filter((form) => form.length >= shortestBase64),
  };
}

type Range = readonly [start: number, end: number];

function find(input: string, decoded: Decoded, { secret, json, base64 }: Forms): Range[] {
  const inWords = secret.length >= shortestInWords;
  const raw = [secret, json].flatMap((form) => rangesOf(input, form, inWords));
  // Base64 for URLs has `-` and `_` in place of `+` and `/`.
  const standard = decoded.text.replaceAll("-", "+").replaceAll("_", "/");
  const encoded = [
    ...rangesOf(decoded.text, secret, inWords),
    ...base64.flatMap((form) => rangesOf(standard, form, true)),
  ];
  return [...raw, ...encoded.map(decoded.rangeInInput)];
}

function rangesOf(text: string, form: string, inWords: boolean): Range[] {
  const ranges: Range[] = [];
  if (form === "") return ranges;
  for (let at = text.indexOf(form); at !== -1; at = text.indexOf(form, at + 1)) {
    const end = at + form.length;
    if (inWords || !(isWord(text[at - 1]) || isWord(text[end]))) ranges.push([at, end]);
  }
  return ranges;
}

function isWord(character = ""): boolean {
  return /^\w/.test(character);
}

function withoutRanges(input: string, ranges: readonly Range[]): string {
  let output = "";
  let done = -1;
  for (const [start, end] of ranges.toSorted(([one], [other]) => one - other)) {
    if (start > done) output += input.slice(Math.max(done, 0), start) + blot;
    else if (start === done) output += blot;
    done = Math.max(done, end);
  }
  return output + input.slice(done);
}

/** A text with its escaped characters decoded. */
interface Decoded {
  readonly text: string;
  /** Converts a range of `text` into a range of the undecoded input. */
  readonly rangeInInput: (range: Range) => Range;
}

const entities: Readonly<Record<string, string>> = {
  ...{ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" },
  ...{ sol: "/", plus: "+", equals: "=", period: ".", lowbar: "_" },
};

/** Matches a character that is escaped for a URL, JSON or HTML, even if it is escaped several times. */
const escaped = new RegExp(
  [
    "%(?:25)*(?<ascii>[0-7][\\da-f])|(?<other>(?:%(?:25)*[89a-f][\\da-f])+)",
    "\\\\+u(?<unit>[\\da-f]{4})|(?<backslashes>\\\\+(?=[^\\w\\s]))",
    `&(?:amp;)*(?:#x0*(?<hex>[\\da-f]{1,6})|#0*(?<decimal>\\d{1,7})|(?<entity>${Object.keys(entities).join("|")}));?`,
  ].join("|"),
  "gi",
);

function decode(input: string): Decoded {
  if (!/[%\\&]/.test(input)) return { text: input, rangeInInput: (range) => range };
  let text = "";
  let done = 0;
  const starts: number[] = [];
  const ends: number[] = [];
  const add = (part: string, start: number, end: number) => {
    for (let index = 0; index < part.length; index++) {
      starts.push(end - start === part.length ? start + index : start);
      ends.push(end - start === part.length ? start + index + 1 : end);
    }
    text += part;
  };
  for (const match of input.matchAll(escaped)) {
    const end = match.index + match[0].length;
    add(input.slice(done, match.index), done, match.index);
    add(meaningOf(match), match.index, end);
    done = end;
  }
  add(input.slice(done), done, input.length);
  return { text, rangeInInput: ([start, end]) => [starts[start]!, ends[end - 1]!] };
}

function meaningOf({ 0: whole, groups = {} }: RegExpMatchArray): string {
  const { ascii, other, unit, backslashes, hex = ascii ?? unit, decimal, entity } = groups;
  if (backslashes !== undefined) return "";
  if (entity !== undefined) return entities[entity.toLowerCase()] ?? whole;
  try {
    if (other !== undefined) return decodeURIComponent(other.replace(/%(?:25)+/g, "%"));
    return String.fromCodePoint(hex === undefined ? Number(decimal) : Number.parseInt(hex, 16));
  } catch {
    return whole;
  }
}

// Avoid recursion, because deeply nested JSON would overflow the stack.
function redactJson(root: unknown, text: (input: string) => string): unknown {
  const stack: object[] = [];
  const visit = (value: unknown): unknown => {
    if (typeof value === "string") return text(value);
    if (typeof value === "object" && value !== null) stack.push(value);
    return value;
  };
  const safe = visit(root);
  for (let container = stack.pop(); container !== undefined; container = stack.pop()) {
    // Loop by index, because collecting millions of keys would take hundreds of megabytes.
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

/** Whether printing the value may show a secret. Returns `true` for a value that is too large to search. */
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
