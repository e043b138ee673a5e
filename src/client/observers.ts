import type { Logger } from "../logger.ts";
import type { StayhookError } from "./errors.ts";

/** A request that is about to go out. */
export interface RequestInfo {
  readonly method: string;
  /** With parameters' names: `/v2/bookings/{bookingCode}`. As given for `client.request`. */
  readonly route: string;
  /** With parameters' values, without the query. */
  readonly path: string;
  /** 1 for the first. What is resent with a new token, or redirected, belongs to the same attempt. */
  readonly attempt: number;
}

/** How a request ended: with a `status`, or with an `error` where no whole answer came. */
export type ResponseInfo = RequestInfo & {
  /** ms, the body included. */
  readonly duration: number;
} & (
    | { readonly status: number; readonly error?: undefined }
    | { readonly error: StayhookError; readonly status?: undefined }
  );

/** Called for every request that goes out. What an observer throws is logged and goes no further. */
export interface Observers {
  readonly onRequest?: ((request: RequestInfo) => unknown) | undefined;
  readonly onResponse?: ((response: ResponseInfo) => unknown) | undefined;
}

/** Tells an observer, which can neither delay nor break what it observes. */
export function tell<T>(observer: ((info: T) => unknown) | undefined, info: T, logger: Logger): void {
  if (!observer) return;
  const failed = (error: unknown): void => logger.warn("stayhook: an observer threw", error);
  try {
    Promise.resolve(observer(info)).catch(failed);
  } catch (error) {
    failed(error);
  }
}
