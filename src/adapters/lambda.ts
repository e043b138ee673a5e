import { withTimeout } from "../async.ts";
import type { ReceiveResult } from "../webhooks/receiving/answers.ts";
import type { ReceiveRequest } from "../webhooks/receiving/request.ts";
import type { ReceiveContext } from "../webhooks/request-context.ts";
import type { AdapterOptions } from "./exchange.ts";
import { assertHandler, endpointOf, withEndpoint } from "./handlers.ts";

export type { AdapterOptions } from "./exchange.ts";
export {
  type SqsBatchResponse,
  type SqsEvent,
  toSqsHandler,
} from "./sqs.ts";

/** The part of a webhook handler that the Lambda function uses. */
type LambdaWebhooks = {
  /** Takes a notification, and returns the HTTP answer to send. */
  receive(request: ReceiveRequest, context?: ReceiveContext): Promise<ReceiveResult>;
};

/**
 * An event of an API Gateway REST API or HTTP API, a function URL or a load balancer. Declares only the fields that
 * the adapter uses.
 */
export interface LambdaHttpEvent {
  /** The HTTP method, from an API Gateway REST API or a load balancer. */
  readonly httpMethod?: string | undefined;
  /** The path, from an API Gateway REST API or a load balancer. */
  readonly path?: string | undefined;
  /** The path, from an API Gateway HTTP API or a function URL. */
  readonly rawPath?: string | undefined;
  /** The raw query, from an API Gateway HTTP API or a function URL. */
  readonly rawQueryString?: string | undefined;
  /** The headers by name. */
  readonly headers?: Readonly<Record<string, string | undefined>> | null | undefined;
  /** The headers, each with all of its values. */
  readonly multiValueHeaders?: Readonly<Record<string, readonly string[] | undefined>> | null | undefined;
  /** The query parameters by name. */
  readonly queryStringParameters?: Readonly<Record<string, string | undefined>> | null | undefined;
  /** The query parameters, each with all of its values. */
  readonly multiValueQueryStringParameters?:
    | Readonly<Record<string, readonly string[] | undefined>>
    | null
    | undefined;
  /** The parameters of the path, as the routes of an API Gateway name them. */
  readonly pathParameters?: Readonly<Record<string, string | undefined>> | null | undefined;
  /** The body as text, or in base64. */
  readonly body?: string | null | undefined;
  /** Whether `body` is in base64. */
  readonly isBase64Encoded?: boolean | undefined;
  /** The information that AWS adds to the event. */
  readonly requestContext?:
    | {
        /** The request, from an API Gateway HTTP API or a function URL. */
        readonly http?:
          | {
              /** The HTTP method, such as `POST`. */
              readonly method?: string | undefined;
            }
          | undefined;
        /** Present only if the event comes from a load balancer. */
        readonly elb?: unknown;
      }
    | undefined;
}

/** The answer of the Lambda function. */
export interface LambdaHttpResult {
  /** The HTTP status of the answer. */
  readonly statusCode: number;
  /** The headers of the answer. `undefined` if the event has only `multiValueHeaders`. */
  readonly headers?: Record<string, string> | undefined;
  /** The headers of the answer, for a load balancer whose target group has multi-value headers on. It ignores `headers`. */
  readonly multiValueHeaders?: Record<string, string[]> | undefined;
  /** The text of the answer. */
  readonly body: string;
}

/** The part of Lambda's context that the function uses. */
export interface LambdaContextLike {
  /** Returns how long the function may still run, ms. */
  getRemainingTimeInMillis(): number;
}

/** How long processing may delay the answer, ms. The platform waits 30 s for the answer, API Gateway 29 s. */
const LONGEST_WAIT = 20_000;
/** How long before the function's timeout the wait for processing ends, ms. */
const SPARE = 1000;

/**
 * Makes a Lambda function from a webhook handler, for an API Gateway REST API or HTTP API, a function URL or a load
 * balancer.
 *
 * Lambda freezes the process after the answer, so the function waits for the processing of all due events before it
 * answers. This wait takes 20 s at most. With `processing: "inline"`, the function processes the event of the request
 * before the other events. To run the retries, call `webhooks.drain()` on a schedule.
 *
 * @throws InvalidArgumentError if `webhooks` is not a handler, or an option is invalid
 * @example
 * ```ts
 * export const handler = toLambdaHandler(webhooks);
 * ```
 */
export function toLambdaHandler<R extends object = LambdaHttpEvent>(
  webhooks: LambdaWebhooks,
  options?: AdapterOptions<R>,
): (event: LambdaHttpEvent, context?: LambdaContextLike) => Promise<LambdaHttpResult> {
  assertHandler(webhooks, ["receive"], options);
  return async (event, context) => {
    const startedAt = performance.now();
    const work: Promise<unknown>[] = [];
    const request = withEndpoint(toReceiveRequest(event), endpointOf(options, event as R));
    const result = await webhooks.receive(request, { waitUntil: (promise) => void work.push(promise) });
    await withTimeout(waitOf(context, startedAt), Promise.all(work));
    return { statusCode: result.status, ...headersFor(event, result.headers), body: result.body };
  };
}

/** A REST API sends both fields and takes both. A load balancer takes only the field that it sends. */
function headersFor(
  { headers, multiValueHeaders }: LambdaHttpEvent,
  answered: Record<string, string>,
): Pick<LambdaHttpResult, "headers" | "multiValueHeaders"> {
  if (headers || !multiValueHeaders) return { headers: answered };
  const several = Object.entries(answered).map(([name, value]): [string, string[]] => [name, [value]]);
  return { multiValueHeaders: Object.fromEntries(several) };
}

function toReceiveRequest(event: LambdaHttpEvent): ReceiveRequest {
  const { body, isBase64Encoded, headers, multiValueHeaders } = event;
  return {
    method: event.httpMethod ?? event.requestContext?.http?.method ?? "",
    url: (event.rawPath ?? event.path ?? "/") + queryOf(event),
    headers: (multiValueHeaders ?? headers ?? {}) as ReceiveRequest["headers"],
    body: body ?? "",
    isBase64Encoded,
  };
}

/**
 * Returns the raw query. An API Gateway REST API decodes the parameters, so this function encodes them again. A load
 * balancer passes the parameters unchanged.
 */
function queryOf(event: LambdaHttpEvent): string {
  if (event.rawQueryString !== undefined)
    return event.rawQueryString === "" ? "" : `?${event.rawQueryString}`;
  const several: Readonly<Record<string, string | readonly string[] | undefined>> =
    event.multiValueQueryStringParameters ?? event.queryStringParameters ?? {};
  const pairs = Object.entries(several).flatMap(([name, values]) =>
    (typeof values === "string" ? [values] : (values ?? [])).map((value): [string, string] => [name, value]),
  );
  if (pairs.length === 0) return "";
  const asTheyCame = event.requestContext?.elb !== undefined;
  return `?${asTheyCame ? pairs.map((pair) => pair.join("=")).join("&") : new URLSearchParams(pairs)}`;
}

/**
 * Returns how long to wait for processing, ms. The time since `startedAt` counts towards the limit, because inline
 * processing began after `startedAt`.
 */
function waitOf(context: LambdaContextLike | undefined, startedAt: number): number {
  const left = context?.getRemainingTimeInMillis?.() ?? Number.POSITIVE_INFINITY;
  return Math.max(0, Math.min(LONGEST_WAIT - (performance.now() - startedAt), left - SPARE));
}
