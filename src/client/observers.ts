// Tells the user, the log and telemetry of each request.

import type { Log } from "../logger.ts";
import type { StayhookError } from "./client-errors.ts";

/** A request that the client is about to send. */
export type RequestObservation = {
  /** The id of the request, a random UUID. `onResponse` gets the same id. */
  readonly id: string;
  /** The HTTP method in upper case. */
  readonly method: string;
  /** The path with parameter names: `/v2/bookings/{bookingCode}`. For `client.request`, the path without query. */
  readonly route: string;
  /** The path with the values of its parameters, without the query. */
  readonly path: string;
  /** The URL without its query and without secrets. */
  readonly url: string;
  /** The number of the attempt, from 1. A redirect, or a repeat with a new token, belongs to the same attempt. */
  readonly attempt: number;
  /** The number of earlier requests of the same call: attempts, redirects, and repeats with a new token. */
  readonly resendCount: number;
  /** The account of a client from `client.account(id)`. Other clients' requests have no account. */
  readonly account?: string | undefined;
};

/** The end of a request. It has a `status`, or an `error` if no complete answer arrived. */
export type ResponseObservation = RequestObservation & {
  /** The time from the request to the end of the body, ms. */
  readonly duration: number;
} & (
    | {
        /** The HTTP status of the answer. */
        readonly status: number;
        /** Absent, because the request got a complete answer. */
        readonly error?: undefined;
      }
    | {
        /** The error of a request that got no complete answer. */
        readonly error: StayhookError;
        /** Absent, because the request got no complete answer. */
        readonly status?: undefined;
      }
  );

/** The functions that the client calls for each request. The client logs errors that the functions throw. */
export type Observers = {
  /** Called before each request. */
  readonly onRequest?: ((request: RequestObservation) => unknown) | undefined;
  /** Called at the end of each request. */
  readonly onResponse?: ((response: ResponseObservation) => unknown) | undefined;
};

type Name = "onRequest" | "onResponse";

/** Wraps observers: their errors go to `failed`, and nobody waits for their results. */
function safe(observers: Observers, failed: (name: Name, error: unknown) => void): Observers {
  const call = <T>(name: Name, observe: ((info: T) => unknown) | undefined, info: T): void => {
    // Observers with a `this`, and observers that change their argument, must not affect others.
    const observed = (async () => observe?.call(observers, { ...info }))();
    observed.catch((error) => failed(name, error));
  };
  return {
    onRequest: (request) => call("onRequest", observers.onRequest, request),
    onResponse: (response) => call("onResponse", observers.onResponse, response),
  };
}

/** Returns everyone who watches the requests: the user's observers, the telemetry and, with a logger, the log. */
export function observersOf(own: Observers, telemetry: Observers | undefined, log: Log): Observers[] {
  const observers: Observers[] = [];
  if (own.onRequest || own.onResponse)
    observers.push(
      safe(own, (name, error) => log.warn(`the client's \`${name}\` threw`, { error, fromUserCode: true })),
    );
  if (telemetry?.onRequest || telemetry?.onResponse)
    observers.push(
      safe(telemetry, (name, error) => {
        const message = `the telemetry function \`${name}\` failed`;
        log.limited("telemetry", "warn", message, { error, fromUserCode: true });
      }),
    );
  if (log.writesDebug)
    observers.push({
      onResponse: (response) => log.debug(lineOf(response), { account: response.account }),
    });
  return observers;
}

function lineOf({ method, path, attempt, duration, status, error }: ResponseObservation): string {
  const outcome = error ? `got no complete answer (${error.code})` : `was answered with ${status}`;
  return `attempt ${attempt} of ${method} ${path} ${outcome} after ${Math.round(duration)} ms`;
}
