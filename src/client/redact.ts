// Removes access tokens and other secrets from errors and logs.

import type { Issue } from "../errors.ts";

const blot = "[redacted]";

/** The length to which a text is cut before its secrets are removed: a search in megabytes would block the process. */
export const mostShown = 64 * 1024;
/** The most characters that an encoding makes of a character. The longest is that of a URL, such as `%E2%82%AC`. */
const longestForm = 9;

/** Removes secrets from texts and objects that come from outside. */
export interface Redactor {
  /** Also cuts a text that is longer than {@link mostShown}. */
  text(text: string): string;
  /** Removes secrets from the strings and property names of parsed JSON. Changes objects and arrays in place. */
  json(value: unknown): unknown;
  headers(headers: Headers): Headers;
  issues(issues: readonly Issue[]): Issue[];
}

/** Makes a redactor for the given secrets. Only errors and observers need a redactor, so most calls make none. */
export function redactor(secrets: Iterable<string>): Redactor {
  const given = Array.from(secrets).filter(Boolean);
  const search = new RegExp(given.flatMap(formsOf).join("|") || "(?!)", "g");
  const longest = longestForm * Math.max(0, ...given.map(({ length }) => length));
  const text = (input: string): string => {
    const isCut = input.length > mostShown;
    const output = (isCut ? input.slice(0, mostShown) : input).replace(search, blot);
    // If the secret is escaped in an unusual way, nobody can tell which part of the text is the secret.
    if (/[%\\&]/.test(output) && unescaped(output).search(search) !== -1) return blot;
    // The cut may have left the first half of a secret at the end.
    return isCut ? `${output.slice(0, Math.max(0, output.length - longest))}…` : output;
  };
  return {
    text,
    json: (value) => redactJson(value, text),
    headers: (headers) => {
      const copy = new Headers();
      headers.forEach((value, name) => {
        copy.append(name, text(value));
      });
      return copy;
    },
    issues: (issues) =>
      issues.map(({ path, message }) => ({
        path: path.map((key) => (typeof key === "string" ? text(key) : key)),
        message: text(message),
      })),
  };
}

/** A secret with fewer characters is redacted only if it is a whole word. */
const shortestInWords = 8;
/** The redactor does not search for a base64 text with fewer characters, because ordinary words could contain it. */
const shortestBase64 = 6;

/** Returns a pattern for each usual encoding of a secret: as it is, in JSON, in a URL, in HTML and in base64. */
function formsOf(secret: string): string[] {
  const inUrl = encodeURIComponent(secret.toWellFormed());
  const inLowerCase = inUrl.replace(/%../g, (hex) => hex.toLowerCase());
  const inHtml = secret.replace(/[&<>"']/g, (character) => `&${htmlNames[character]};`);
  const inJson = JSON.stringify(secret).slice(1, -1);
  const plain = [secret, inJson, inJson.replaceAll("/", "\\/"), inUrl, inLowerCase, inHtml].map(literal);
  const bytes = Array.from(new TextEncoder().encode(secret), (byte) => String.fromCharCode(byte)).join("");
  // At each byte offset, leave out the characters that also depend on other bytes.
  const base64 = [0, 1, 2].map((before) =>
    btoa("\0".repeat(before) + bytes).slice(
      Math.ceil((before * 8) / 6),
      Math.floor(((before + bytes.length) * 8) / 6),
    ),
  );
  return [
    ...(secret.length < shortestInWords ? plain.map((form) => `(?<!\\w)${form}(?!\\w)`) : plain),
    // Base64 for URLs has `-` and `_` in place of `+` and `/`.
    ...base64
      .filter((form) => form.length >= shortestBase64)
      .map((form) => form.replaceAll("+", "[+-]").replaceAll("/", "[/_]")),
  ];
}

const htmlNames: Readonly<Record<string, string>> = {
  "&": "amp",
  "<": "lt",
  ">": "gt",
  '"': "quot",
  "'": "#39",
};

function literal(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

const entities: Readonly<Record<string, string>> = {
  sol: "/",
  plus: "+",
  equals: "=",
  period: ".",
  lowbar: "_",
  hyphen: "-",
};

/**
 * Matches the characters of tokens, escaped for a URL, JSON or HTML, even several times. Leaves out other escapes,
 * such as `&nbsp;`: each match costs time, and a large page has many of them.
 */
const escaped = new RegExp(
  [
    "%(?:25)*(2[b-f]|[3-7][\\da-f])",
    "\\\\+(?:u00([2-7][\\da-f]))?",
    `&(?:amp;)*(?:#x0*([2-7][\\da-f])|#0*(\\d{2,3})|(${Object.keys(entities).join("|")}));?`,
  ].join("|"),
  "gi",
);

function unescaped(text: string): string {
  return text.replace(escaped, (_, url, json, hex = url ?? json, decimal, name) => {
    if (name !== undefined) return entities[name.toLowerCase()] as string;
    if (hex === undefined && decimal === undefined) return "";
    return String.fromCharCode(decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal));
  });
}

/** How many causes of an error are searched. */
const mostCauses = 5;

/** Returns the texts of an error and of its causes: its message, its stack, and data such as what a parser did not expect. */
export function textsIn(
  error: unknown,
): { readonly of: object; readonly name: string; readonly text: string }[] {
  const texts: { of: object; name: string; text: string }[] = [];
  let each = error;
  for (let depth = 0; typeof each === "object" && each !== null && depth <= mostCauses; depth++) {
    for (const name of Object.getOwnPropertyNames(each)) {
      const text = (each as Record<string, unknown>)[name];
      if (typeof text === "string") texts.push({ of: each, name, text });
    }
    each = (each as { readonly cause?: unknown }).cause;
  }
  return texts;
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
    // An assignment to the name `__proto__` would set the prototype.
    const descriptor = { value: safe, writable: true, enumerable: true, configurable: true };
    Object.defineProperty(object, name, descriptor);
  }
}
