import { topicOf, topics } from "../../models/topics.ts";

/** A request, in a form that any server can provide. */
export interface ReceiveRequest {
  /** The HTTP method, such as `POST`. */
  readonly method: string;
  /** Path and query, or the whole URL. `verify` reads it, and its parameter `topic` names the topic. */
  readonly url: string;
  /** The headers: a `Headers` object, an object with a member for each name, or pairs of name and value. */
  readonly headers: RequestHeaders;
  /** The body as received, or the object that a body parser made. A Node stream counts as an `AsyncIterable`. */
  readonly body?:
    | string
    | Uint8Array
    | ArrayBuffer
    | AsyncIterable<Uint8Array | string>
    | ReadableStream<Uint8Array>
    | object
    | null
    | undefined;
  /** Whether `body` is encoded in base64, as on AWS Lambda. Default `false`. */
  readonly isBase64Encoded?: boolean | undefined;
  /** The topic of this endpoint, which becomes `event.topic`. Default: that of the URL's parameter `topic`. */
  readonly topic?: string | undefined;
  /**
   * The account of this request, in a handler with `accountFrom`. Several values must be equal. Default: the account that
   * `accountFrom` finds.
   */
  readonly account?: string | readonly string[] | undefined;
}

/** The headers of a request, in the forms that runtimes and frameworks use. */
export type RequestHeaders =
  | Headers
  | Readonly<Record<string, string | readonly string[] | undefined>>
  | Iterable<readonly [string, string]>;

/** Reads one header without making a `Headers` object. `name` must be in lower case. */
export function headerOf(headers: RequestHeaders, name: string): string | undefined {
  const direct = (headers as Readonly<Record<string, unknown>>)[name];
  if (typeof direct === "string") return direct;
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  for (const [key, value] of entriesOf(headers)) {
    if (key.length === name.length && key.toLowerCase() === name && value !== undefined) return String(value);
  }
  return undefined;
}

/** Makes a `Headers` object. Leaves out names and values that `Headers` refuses, such as HTTP/2's name `:path`. */
export function toHeaders(headers: RequestHeaders): Headers {
  if (headers instanceof Headers) return headers;
  const result = new Headers();
  for (const [name, value] of entriesOf(headers)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) tryAppend(result, name, String(one));
    }
  }
  return result;
}

function tryAppend(headers: Headers, name: string, value: string): void {
  try {
    headers.append(name, value);
  } catch {
    // Leave out a name or value that `Headers` refuses.
  }
}

type Entries = Iterable<readonly [string, string | readonly string[] | undefined]>;

function entriesOf(headers: Exclude<RequestHeaders, Headers>): Entries {
  return isIterable(headers) ? headers : Object.entries(headers);
}

function isIterable(headers: object): headers is Iterable<readonly [string, string]> {
  return Symbol.iterator in headers;
}

/** Returns the name of the topic in a URL. Returns `undefined` if there is none, or if there are different ones. */
export function topicNameIn(url: unknown): string | undefined {
  if (typeof url !== "string") return undefined;
  const [name, ...others] = queryValues(queryOf(url), TOPIC);
  return others.every((other) => other === name) ? name : undefined;
}

/** The query parameter that names the topic of an endpoint. */
export const TOPIC = "topic";

/** Returns what is wrong with the topic of an endpoint, or `undefined`. */
export function problemWithTopic(topic: unknown): string | undefined {
  const isKnown = topic === undefined || topicOf(topic) !== undefined;
  return isKnown ? undefined : `must be one of ${topics.join(", ")}`;
}

/** Returns the text between the first `?` and the fragment of a URL. */
export function queryOf(url: string): string {
  const mark = url.indexOf("?");
  if (mark < 0) return "";
  const hash = url.indexOf("#");
  return hash < 0 ? url.slice(mark + 1) : url.slice(mark + 1, hash);
}

/**
 * Matches printable ASCII except `%`, `+` and `?`. `%` and `+` need decoding, and `URLSearchParams` drops a `?` at
 * the start.
 */
const PLAIN_QUERY = /^[!-$&-*,->@-~]*$/;

/** Returns all values of a query parameter. Does not decode a plain query, because decoding is several times slower. */
export function queryValues(search: string, name: string): string[] {
  const values: string[] = [];
  if (search === "") return values;
  if (!PLAIN_QUERY.test(search) || !/^[\w-]+$/.test(name)) return new URLSearchParams(search).getAll(name);
  for (let start = 0; start < search.length; ) {
    const next = search.indexOf("&", start);
    const end = next < 0 ? search.length : next;
    const equals = start + name.length;
    if (search.startsWith(name, start) && (equals === end || search[equals] === "="))
      values.push(search.slice(equals + 1, end));
    start = end + 1;
  }
  return values;
}
