// The body of a request.

import { InvalidArgumentError } from "../errors.ts";
import { isIterable, isOpaque } from "./client-options.ts";

/** Writes the body of a request as JSON. @throws InvalidArgumentError if JSON cannot hold it */
export function bodyOf(method: string, body: unknown): string | undefined {
  if (body === undefined) return undefined;
  const refusal = (message: string): Error => new InvalidArgumentError({ path: ["body"], message });
  if (method === "GET" || method === "HEAD") throw refusal(`cannot be sent with ${method}`);
  let text: string | undefined;
  let lost: string | undefined;
  try {
    text = JSON.stringify(body, function (this: Record<string, unknown>, name, value: unknown) {
      // A Buffer has a `toJSON`, which hides its kind.
      const kind = lostInJson(this[name]) ?? lostInJson(value);
      if (kind !== undefined) lost ??= `${name === "" ? "" : `\`${name}\` `}cannot be ${kind}`;
      return value;
    });
  } catch {
    // The body has a circular object or a bigint. The check of `text` below throws.
  }
  if (lost !== undefined) throw refusal(`${lost}, because the client sends JSON`);
  if (text === undefined) throw refusal("cannot be written as JSON");
  return text;
}

/** Returns the kind of a value of which JSON would keep nothing, such as a `FormData`, or `undefined`. */
function lostInJson(value: unknown): string | undefined {
  if (typeof value === "function" || typeof value === "symbol") return `a ${typeof value}`;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const { toJSON, pipe } = value as Readonly<Record<string, unknown>>;
  const isStream = typeof pipe === "function" || Symbol.asyncIterator in value;
  const isData = typeof toJSON === "function" || typeof value.valueOf?.() !== "object";
  const isLost = isStream || ArrayBuffer.isView(value) || (!isData && (isIterable(value) || isOpaque(value)));
  if (!isLost) return undefined;
  const tag = Object.prototype.toString.call(value).slice(8, -1);
  // A stream of Node is an `Object`, too.
  const kind = tag === "Object" ? (isStream ? "stream" : (value.constructor?.name ?? tag)) : tag;
  return `${/^[AEIO]/.test(kind) ? "an" : "a"} ${kind}`;
}
