import { type ApiPromise, apiPromise } from "./api-promise.ts";
import type { Call, Http, Method } from "./http.ts";
import type { RequestOptions } from "./options.ts";
import type { Path } from "./path.ts";
import type { Reader } from "./readers.ts";

/** What an endpoint is, beside its verb, its path and its answer. */
type Extras = Pick<Call, "query" | "repeatable" | "mayBeMissing"> & {
  /** Gives the body, or throws: bad arguments reject. */
  readonly body?: () => unknown;
  readonly secrets?: (body: unknown) => string[];
};

/** Calls an endpoint and reads its answer. */
export function callEndpoint<T>(
  http: Http,
  method: Method,
  path: Path,
  read: Reader<T>,
  options: RequestOptions | undefined,
  { body: makeBody, secrets, ...extras }: Extras = {},
): ApiPromise<T> {
  const answered = async () => {
    const body = makeBody?.();
    const call: Call = { method, path, options: options ?? {}, body, secrets: secrets?.(body), ...extras };
    const answer = await http.send(call);
    return { data: await read(answer), response: answer.response, body: answer.body.value };
  };
  return apiPromise(answered());
}
