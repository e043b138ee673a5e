/** A request's headers, as the runtimes and frameworks have them. */
export type RequestHeaders =
  | Headers
  | Readonly<Record<string, string | readonly string[] | undefined>>
  | Iterable<readonly [string, string]>;

/** One header, with no `Headers` made for it. `name` in lower case. */
export function headerOf(headers: RequestHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const direct = isIterable(headers) ? undefined : headers[name];
  if (typeof direct === "string") return direct;
  for (const [key, value] of entriesOf(headers)) {
    if (key.toLowerCase() === name && value !== undefined) return String(value);
  }
  return undefined;
}

/** All of them. What no header can hold (HTTP/2's `:path`, say) is left out. */
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
    // Not a header; whoever looks for it finds none.
  }
}

type Entries = Iterable<readonly [string, string | readonly string[] | undefined]>;

function entriesOf(headers: Exclude<RequestHeaders, Headers>): Entries {
  return isIterable(headers) ? headers : Object.entries(headers);
}

function isIterable(headers: object): headers is Iterable<readonly [string, string]> {
  return Symbol.iterator in headers;
}
