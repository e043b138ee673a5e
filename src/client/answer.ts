// An answer of the platform, and the errors that it stands for.

import type { Issue } from "../errors.ts";
import type { Body } from "./body.ts";
import {
  APIError,
  type APIErrorInit,
  ConnectionError,
  messageIn,
  NotFoundError,
  ResponseValidationError,
  shorten,
} from "./client-errors.ts";
import { mostShown, type Redactor, redactor } from "./redact.ts";

/** An answer whose body has been read. */
export interface Exchange {
  readonly response: Response;
  readonly body: Body;
}

/** The request that an answer belongs to. */
export interface SentRequest {
  readonly method: string;
  /** The path below the base URL. */
  readonly path: string;
  /** The tokens and other secrets of the call. No error may show them. */
  readonly secrets: Set<string>;
  /** Finds further secrets in the text of an answer. */
  readonly secretsInAnswer?: ((text: string) => string[]) | undefined;
  /** The longest body that the client reads, in bytes. */
  readonly maxResponseBytes: number;
}

/** The answer to a call: a 2xx, or a 404 or 410 if `mayBeMissing` allows these statuses. */
export class Answer implements Exchange {
  readonly response: Response;
  readonly body: Body;
  readonly mayBeMissing: boolean;
  /** Whether the status is 404 or 410. */
  readonly missing: boolean;
  /**
   * The error for a GET that was answered with success, but without a body. A proxy may have cut the answer off, so it does
   * not say that there is no record.
   */
  readonly cutOff: ConnectionError | undefined;
  readonly #request: SentRequest;

  /** @throws APIError if the status is not 2xx. If `mayBeMissing` is set, 404 and 410 do not throw */
  constructor({ response, body }: Exchange, request: SentRequest, mayBeMissing: boolean) {
    const { status } = response;
    this.response = response;
    this.body = body;
    this.mayBeMissing = mayBeMissing;
    this.missing = mayBeMissing && (status === 404 || status === 410);
    this.#request = request;
    if (!this.missing && (status < 200 || status > 299)) {
      const redirect = describeRedirect(response);
      // The query of the target may name a guest.
      const logged = redirect?.replace(/[?#].*/s, "");
      throw APIError.of(this.#errorInit(logged, messageIn(body.value) ?? redirect));
    }
    const isRead = request.method === "GET" && !this.missing && status !== 204;
    if (isRead && body.kind === "empty")
      this.cutOff = new ConnectionError(
        `GET ${shorten(request.path)} was answered with ${status} and an empty body, which was probably cut off on its way.`,
      );
  }

  /** Makes the error for an unexpected body. */
  invalid(
    issues: readonly Issue[],
    options: { readonly cause?: unknown; readonly valid?: readonly unknown[] } = {},
  ): ResponseValidationError {
    const { method, path } = this.#request;
    const redact = this.#redactor();
    const whole = this.#problem(redact);
    return new ResponseValidationError(
      `${method} ${path}`,
      whole === undefined ? redact.issues(issues) : [{ path: [], message: whole }],
      this.#shownBody(redact),
      { ...options, logged: this.body.kind === "text" ? NOT_JSON : undefined },
    );
  }

  /** Describes a body of which no part can be read. */
  #problem(redact: Redactor): string | undefined {
    const { value, kind } = this.body;
    if (kind === "cut")
      return `the body is longer than ${this.#request.maxResponseBytes} bytes. Set the client's option \`maxResponseBytes\``;
    return kind === "text"
      ? `${NOT_JSON}: ${redact
          .text(value as string)
          .trim()
          .slice(0, 200)}`
      : undefined;
  }

  /** Makes the error for a body that reports a missing record. */
  notFound(detail = "there is no such record"): NotFoundError {
    return new NotFoundError(this.#errorInit(detail, messageIn(this.body.value)));
  }

  /**
   * Makes the error for a body that reports a failure.
   *
   * @param property - the property that reports the failure
   */
  failed([name, value]: readonly [string, unknown]): APIError {
    const failure = "the body reports a failure";
    const said = messageIn(this.body.value) ?? `${failure}: ${JSON.stringify({ [name]: value })}`;
    return new APIError(this.#errorInit(`${failure} in \`${name}\``, said));
  }

  /** Removes the secrets of the call, and those of the answer itself. */
  #redactor(): Redactor {
    const { secrets, secretsInAnswer } = this.#request;
    if (!secretsInAnswer) return redactor(secrets);
    const { value, long } = this.body;
    const body = long ?? (typeof value === "string" ? value : (JSON.stringify(value) ?? ""));
    const text = [body.slice(0, mostShown), ...this.response.headers.values()].join("\n");
    return redactor([...secrets, ...secretsInAnswer(text)]);
  }

  #shownBody(redact: Redactor): unknown {
    const { value, long } = this.body;
    return long === undefined ? redact.json(value) : redact.text(long);
  }

  /**
   * @param loggedDetail - what this package says of the answer
   * @param said - what the platform says. The message shows it first
   */
  #errorInit(loggedDetail: string | undefined, said = messageIn(this.body.value)): APIErrorInit {
    const { method, path } = this.#request;
    const redact = this.#redactor();
    const shown = (text: string | undefined) => (text === undefined ? undefined : redact.text(text));
    return {
      status: this.response.status,
      headers: redact.headers(this.response.headers),
      body: this.#shownBody(redact),
      method,
      path,
      detail: shown(said ?? loggedDetail),
      loggedDetail: shown(loggedDetail),
    };
  }
}

const NOT_JSON = "is not JSON";

/** Describes a redirect that the client did not follow, for an error. Returns `undefined` for any other answer. */
function describeRedirect(response: Response): string | undefined {
  if (response.type === "opaqueredirect")
    return "the answer is a redirect, but this runtime hides its target";
  if (response.status < 300 || response.status > 399) return undefined;
  const location = response.headers.get("location");
  return location ? `the client did not follow the redirect to ${location}` : undefined;
}
