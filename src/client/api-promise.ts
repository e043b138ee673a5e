// The promise that each call of the client returns.

import type { Answer } from "./answer.ts";
import { noOptions, type RequestOptions } from "./client-options.ts";
import type { Call, Http, HttpMethod } from "./http.ts";
import type { Path } from "./urls.ts";

/** The data of an answer, and the HTTP response. */
export interface WithResponse<out T> {
  /** The data that the call resolves to without `withResponse()`. */
  readonly data: T;
  /** The HTTP response. Its body has already been read: use the property `body` instead. */
  readonly response: Response;
  /** The parsed JSON body, or the text of a body that is not JSON. `undefined` if the body is empty. */
  readonly body: unknown;
}

/** A promise of an answer's data. Its method `withResponse` also gives the HTTP response. */
export interface ApiPromise<out T> extends Promise<T> {
  /**
   * Gives the data together with the HTTP response.
   *
   * @example
   * ```ts
   * const { data, response } = await client.bookings.get("HX3K9").withResponse();
   * console.log(response.headers.get("x-ratelimit-remaining"));
   * ```
   */
  withResponse(): Promise<WithResponse<T>>;
}

function apiPromise<T>(answered: Promise<WithResponse<T>>): ApiPromise<T> {
  const data = answered.then((answer) => answer.data);
  return Object.assign(data, {
    withResponse: () => {
      // Mark the rejection of `data` as handled, because the caller gets the error from the returned promise.
      data.catch(() => {});
      return answered.then((answer) => answer);
    },
  });
}

/** Reads the data from an answer, or throws the error that the answer reports. */
export type Reader<T> = (answer: Answer) => T | Promise<T>;

type Extras = Pick<Call, "query" | "repeatable" | "mayBeMissing" | "secretsInAnswer"> & {
  /** Makes the body. If this function throws because of a bad argument, the call rejects. */
  readonly body?: () => unknown;
  readonly secrets?: (body: unknown) => string[];
};

export function callEndpoint<T>(
  http: Http,
  method: HttpMethod,
  path: Path,
  read: Reader<T>,
  options: RequestOptions = noOptions,
  { body: makeBody, secrets, ...extras }: Extras = {},
): ApiPromise<T> {
  const answered = async () => {
    const body = makeBody?.();
    const answer = await http.send({ method, path, options, body, secrets: secrets?.(body), ...extras });
    return { data: await read(answer), response: answer.response, body: answer.body.value };
  };
  return apiPromise(answered());
}
