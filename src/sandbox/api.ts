import type { Log } from "../logger.ts";
import type { Clock } from "./clock.ts";
import type { FaultInjector } from "./faults.ts";
import type { SandboxFault } from "./options.ts";
import { failure, type Platform, type PlatformRequest, type PlatformResponse } from "./platform.ts";

/** A request that the sandbox's API answered. */
export interface SandboxRequest {
  /** The HTTP method. */
  readonly method: string;
  /** The path with its query. */
  readonly path: string;
  /** By the sandbox's clock. */
  readonly receivedAt: Date;
  /** The status of the answer. */
  readonly status: number;
  /** The fault that struck the request, if any. */
  readonly fault: SandboxFault | undefined;
}

/** A request over HTTP or by `sandbox.fetch`. Its body is `undefined` if it was too large. */
export type ApiRequest = Omit<PlatformRequest, "body"> & { readonly body: string | undefined };

/** An answer as it is sent. */
export interface WireResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** `undefined` for no body at all. */
  readonly text: string | undefined;
}

export type ApiResponse = WireResponse & {
  /** Break the connection in the middle of the body, or before the headers if there is no body. */
  readonly cutOff: boolean;
};

/** Writes an answer of the platform as it is sent. */
export type Render = (response: PlatformResponse) => WireResponse;

/** The platform's API with faults. */
export interface Api {
  answer(request: ApiRequest): Promise<ApiResponse>;
  /** The newest answered requests, the oldest first. */
  requests(limit?: number): SandboxRequest[];
}

/** In bytes. */
export const maxBodyBytes = 1_048_576;

const maxKept = 100_000;

export function createApi(options: {
  readonly platform: Platform;
  readonly faults: FaultInjector;
  readonly render: Render;
  readonly clock: Clock;
  readonly log: Log;
  /** Called after each answered request. */
  readonly observe: (request: SandboxRequest) => void;
}): Api {
  const { platform, faults, clock, log, observe } = options;
  const requests = new Recent<SandboxRequest>(maxKept);
  let count = 0;

  return {
    async answer(request) {
      const id = `req_${++count}`;
      const { method, target: path } = request;
      const receivedAt = new Date(clock.now());
      const strike = faults.strike(method, path.split("?", 1)[0] ?? "");
      if (strike && strike.delay > 0) await clock.wait(strike.delay);
      const { status, headers, text } = options.render(respond(platform, request, strike?.fault));
      const answered = { method, path, receivedAt, status, fault: strike?.fault };
      requests.add(answered);
      observe(answered);
      log.debug(`${method} ${path}: ${status}`);
      const cutOff = strike?.fault.cutOff === true;
      return { status, headers: { "x-request-id": id, ...headers }, text, cutOff };
    },
    requests: (limit) => requests.list(limit),
  };
}

function respond(platform: Platform, request: ApiRequest, fault: SandboxFault | undefined): PlatformResponse {
  if (fault?.status !== undefined) {
    const { status, retryAfter } = fault;
    const response = failure(status, "fault", `A fault of the sandbox answers ${status}.`);
    return retryAfter === undefined
      ? response
      : { ...response, headers: { "retry-after": String(retryAfter) } };
  }
  const { body } = request;
  if (body !== undefined) return platform.answer({ ...request, body });
  return {
    ...failure(413, "too_large", `A body may have at most ${maxBodyBytes} bytes.`),
    headers: { connection: "close" },
  };
}

/** Writes records as they are, lists as arrays, errors as `{ error }`, and the answer to DELETE as 204. */
export const render: Render = ({ shape, status, body, headers }) => {
  if (shape === "write" && body === undefined)
    return { status: 204, headers: { ...headers }, text: undefined };
  const isError = shape === "error" || shape === "no-config";
  return {
    status,
    headers: { "content-type": "application/json", ...headers },
    text: JSON.stringify(isError ? { error: body } : body),
  };
};

/** Keeps the newest items of a list, so that a sandbox that runs for days does not fill the memory. */
export class Recent<T> {
  readonly #items: T[] = [];
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  add(item: T): void {
    this.#items.push(item);
    // In blocks, because removing the first item of a long array is slow.
    if (this.#items.length >= 2 * this.#max) this.#items.splice(0, this.#items.length - this.#max);
  }

  /** The newest items, the oldest first. */
  list(limit: number = this.#max): T[] {
    return this.#items.slice(-Math.min(limit, this.#max));
  }
}
