import { atMost } from "../async.ts";
import type { ReceiveContext } from "../webhooks/handler.ts";
import type { ReceiveResult } from "../webhooks/receiving/answers.ts";
import type { ReceiveRequest } from "../webhooks/receiving/request.ts";
import type { AdapterOptions } from "./exchange.ts";
import { assertHandler } from "./handlers.ts";

export type { AdapterOptions } from "./exchange.ts";
export {
  type SqsBatchResponse,
  type SqsEvent,
  type SqsRecord,
  type SqsWebhooks,
  toSqsHandler,
} from "./sqs.ts";

/** The part of a webhook handler that the function uses. */
export interface LambdaWebhooks {
  /** Takes a notification, and gives the answer to send. */
  receive(request: ReceiveRequest, context?: ReceiveContext): Promise<ReceiveResult>;
}

/** The part of an event of API Gateway (REST and HTTP), a function URL or a load balancer that the function uses. */
export interface LambdaHttpEvent {
  /** The HTTP method, from a REST API or a load balancer. */
  readonly httpMethod?: string | undefined;
  /** The path, from a REST API or a load balancer. */
  readonly path?: string | undefined;
  /** The path, from an HTTP API or a function URL. */
  readonly rawPath?: string | undefined;
  /** The query as it came, from an HTTP API or a function URL. */
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
  /** The body as text, or in base64. */
  readonly body?: string | null | undefined;
  /** Whether `body` is in base64. */
  readonly isBase64Encoded?: boolean | undefined;
  /** The part of the event that the service adds. */
  readonly requestContext?:
    | {
        /** The request, from an HTTP API or a function URL. */
        readonly http?:
          | {
              /** The HTTP method. */
              readonly method?: string | undefined;
            }
          | undefined;
        /** Only a load balancer sets it. */
        readonly elb?: unknown;
      }
    | undefined;
}

/** The answer of a Lambda function behind any of these. */
export interface LambdaHttpResult {
  /** The HTTP status of the answer. */
  readonly statusCode: number;
  /** The headers of the answer. */
  readonly headers: Record<string, string>;
  /** The text of the answer. */
  readonly body: string;
}

/** The part of Lambda's context that the function uses. */
export interface LambdaContextLike {
  /** How long the function may still run, ms. */
  getRemainingTimeInMillis(): number;
}

/** How long work may delay an answer, ms. The platform waits for 30 s, API Gateway for 29 s. */
const LONGEST_WAIT = 20_000;
/** How much of the function's time the work leaves, ms. */
const SPARE = 1000;

/**
 * Makes a Lambda function of a webhook handler, behind API Gateway (REST and HTTP), a function URL or a load balancer.
 *
 * Lambda stops the process after the answer, so the function processes events before it answers: its own event with
 * `processing: "inline"`, otherwise all due events, for 20 s at most. Call `webhooks.drain()` by a schedule for retries.
 *
 * @throws InvalidArgumentError where `webhooks` is not a handler, or an option is misspelled
 * @example
 * ```ts
 * export const handler = toLambdaHandler(webhooks);
 * ```
 */
export function toLambdaHandler(
  webhooks: LambdaWebhooks,
  options?: AdapterOptions,
): (event: LambdaHttpEvent, context?: LambdaContextLike) => Promise<LambdaHttpResult> {
  assertHandler(webhooks, ["receive"], options);
  return async (event, context) => {
    const work: Promise<unknown>[] = [];
    const request = { ...toReceiveRequest(event), topic: options?.topic };
    const result = await webhooks.receive(request, { waitUntil: (promise) => void work.push(promise) });
    await atMost(waitOf(context), [Promise.all(work)]);
    return { statusCode: result.status, headers: result.headers, body: result.body };
  };
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

/** The raw query, where the event has it. API Gateway REST decodes the parts of the query, a load balancer does not. */
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

function waitOf(context: LambdaContextLike | undefined): number {
  const left = context?.getRemainingTimeInMillis?.() ?? Number.POSITIVE_INFINITY;
  return Math.max(0, Math.min(LONGEST_WAIT, left - SPARE));
}
