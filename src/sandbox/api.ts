import type { Log } from "../logger.ts";
import type { Clock } from "./clock.ts";
import type { FaultControl, SandboxFault } from "./faults.ts";
import type { Platform } from "./platform.ts";
import { createRecent } from "./recent.ts";
import type { Render, WireResponse } from "./render.ts";
import { failure, type PlatformRequest, type PlatformResponse } from "./routes.ts";

/** A request that the sandbox's API got. */
export interface SandboxRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** By the sandbox's clock. */
  readonly receivedAt: Date;
  /** That it was answered with. */
  readonly status: number;
  /** The fault that struck it. */
  readonly fault: SandboxFault | undefined;
}

/** A request, whatever carried it here; its body is `undefined` where it was larger than any that this API takes. */
export type ApiRequest = Omit<PlatformRequest, "body"> & { readonly body: string | undefined };

export type ApiResponse = WireResponse & {
  /** The connection is to be destroyed in the middle of the body, or before the headers where there is none. */
  readonly cutOff: boolean;
};

/** The platform's API: faults in front of it, and what gives an answer its form behind. */
export interface Api {
  answer(request: ApiRequest): Promise<ApiResponse>;
  /** Those answered so far, the oldest first. */
  requests(): SandboxRequest[];
}

/** In bytes. */
export const maxBodyBytes = 1_048_576;

const maxKept = 100_000;

export function createApi(options: {
  readonly platform: Platform;
  readonly faults: FaultControl;
  readonly render: Render;
  readonly clock: Clock;
  readonly log: Log;
  /** Told of each request that was answered. */
  readonly observe: (request: SandboxRequest) => void;
}): Api {
  const { platform, faults, render, clock, log, observe } = options;
  const answeredRequests = createRecent<SandboxRequest>(maxKept);
  let count = 0;

  return {
    async answer(request) {
      const id = `req_${++count}`;
      const { method, target: path } = request;
      const receivedAt = new Date(clock.now());
      const strike = faults.strike(method, path.split("?", 1)[0] ?? "");
      if (strike && strike.delay > 0) await clock.wait(strike.delay);
      const { status, headers, text } = render(respond(platform, request, strike?.fault));
      const answered = { method, path, receivedAt, status, fault: strike?.fault };
      answeredRequests.add(answered);
      observe(answered);
      log.debug(`${method} ${path}: ${status}`);
      return {
        status,
        headers: { "x-request-id": id, ...headers },
        text,
        cutOff: strike?.fault.cutOff === true,
      };
    },
    requests: answeredRequests.list,
  };
}

function respond(platform: Platform, request: ApiRequest, fault: SandboxFault | undefined): PlatformResponse {
  if (fault?.status !== undefined) {
    const { status, retryAfter } = fault;
    const response = failure(status, "fault", `A fault that was asked for answers ${status}.`);
    return retryAfter === undefined
      ? response
      : { ...response, headers: { "retry-after": String(retryAfter) } };
  }
  const { body } = request;
  if (body !== undefined) return platform.answer({ ...request, body });
  return {
    ...failure(413, "too_large", `A body has at most ${maxBodyBytes} bytes.`),
    headers: { connection: "close" },
  };
}
