/** What {@link ApiPromise.withResponse} resolves to. */
export interface WithResponse<T> {
  readonly data: T;
  /** Status, headers and URL. Its body has been read: it is `body`. */
  readonly response: Response;
  /** The parsed body as it came, or its text where it is not JSON; `undefined` where it was empty. */
  readonly body: unknown;
}

/** What the client's methods return: a promise of the data, which can also give the answer that it was in. */
export interface ApiPromise<T> extends Promise<T> {
  /**
   * The data together with the HTTP response.
   *
   * @example
   * ```ts
   * const { data, response } = await client.bookings.get("HX3K9").withResponse();
   * console.log(response.headers.get("x-ratelimit-remaining"));
   * ```
   */
  withResponse(): Promise<WithResponse<T>>;
}

export function apiPromise<T>(answered: Promise<WithResponse<T>>): ApiPromise<T> {
  const data = answered.then((answer) => answer.data);
  return Object.assign(data, {
    withResponse: () => {
      // Whoever asks for the response will see its rejection; the promise of the data is nobody's then.
      data.catch(() => {});
      return answered.then((answer) => answer);
    },
  });
}
