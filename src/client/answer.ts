// An answer of the platform, and the errors that it stands for.

import type { Issue } from "../errors.ts";
import { parseExactly } from "../models/exact-json.ts";
import {
  APIError,
  type APIErrorInit,
  messageIn,
  NotFoundError,
  ResponseValidationError,
} from "./client-errors.ts";
import { mostShown, type Redactor, redactor } from "./redact.ts";

/** The body of an answer. */
export interface Body {
  /** The parsed JSON body, or the text of a body that is not JSON. `undefined` if the body is empty. */
  readonly value: unknown;
  /** `cut` is the text of a body that was longer than {@link maxBodyBytes}, so that its end is missing. */
  readonly kind: "json" | "text" | "cut" | "empty";
  /** The text of a JSON body that is too long for an error to show as JSON. */
  readonly long?: string;
}

/** An answer whose body has been read. */
export interface Exchange {
  readonly response: Response;
  readonly body: Body;
}

/** The request that an answer belongs to. */
export interface Asked {
  readonly method: string;
  /** The path below the base URL. */
  readonly path: string;
  /** The tokens and other secrets of the call. No error may show them. */
  readonly secrets: Set<string>;
}

/** The answer to a call: a 2xx, or a 404 or 410 if `mayBeMissing` allows these statuses. */
export class Answer implements Exchange {
  readonly response: Response;
  readonly body: Body;
  readonly mayBeMissing: boolean;
  /** Whether the status is 404 or 410. */
  readonly missing: boolean;
  readonly #asked: Asked;

  /** @throws APIError if the status is not 2xx. If `mayBeMissing` is set, 404 and 410 do not throw */
  constructor({ response, body }: Exchange, asked: Asked, mayBeMissing: boolean) {
    const { status } = response;
    this.response = response;
    this.body = body;
    this.mayBeMissing = mayBeMissing;
    this.missing = mayBeMissing && (status === 404 || status === 410);
    this.#asked = asked;
    if (!this.missing && (status < 200 || status > 299))
      throw APIError.of(this.#errorInit(describeRedirect(response)));
  }

  /**
   * Makes the error for an unexpected body.
   *
   * @param options - `secrets` are secrets of the body, which the error must not show either
   */
  invalid(
    issues: readonly Issue[],
    {
      secrets = [],
      ...options
    }: {
      readonly cause?: unknown;
      readonly valid?: readonly unknown[];
      readonly secrets?: readonly string[];
    } = {},
  ): ResponseValidationError {
    const { method, path } = this.#asked;
    const redact = redactor([...this.#asked.secrets, ...secrets]);
    const whole = this.#problem(redact);
    return new ResponseValidationError(
      `${method} ${path}`,
      whole === undefined ? redact.issues(issues) : [{ path: [], message: whole }],
      this.#shownBody(redact),
      options,
    );
  }

  /** Describes a body of which no part can be read. */
  #problem(redact: Redactor): string | undefined {
    const { value, kind } = this.body;
    if (kind === "cut") return `the body is longer than ${maxBodyBytes} bytes`;
    return kind === "text"
      ? `is not JSON: ${redact
          .text(value as string)
          .trim()
          .slice(0, 200)}`
      : undefined;
  }

  /** Makes the error for a body that reports a missing record. */
  notFound(detail = messageIn(this.body.value) ?? "there is no such record"): NotFoundError {
    return new NotFoundError(this.#errorInit(detail));
  }

  /**
   * Makes the error for a body that reports a failure.
   *
   * @param property - the property that reports the failure
   */
  failed([name, value]: readonly [string, unknown]): APIError {
    return new APIError(
      this.#errorInit(
        messageIn(this.body.value) ?? `the body reports a failure: ${JSON.stringify({ [name]: value })}`,
      ),
    );
  }

  #shownBody(redact: Redactor): unknown {
    const { value, long } = this.body;
    return long === undefined ? redact.json(value) : redact.text(long);
  }

  #errorInit(detail = messageIn(this.body.value)): APIErrorInit {
    const { method, path, secrets } = this.#asked;
    const redact = redactor(secrets);
    return {
      status: this.response.status,
      headers: redact.headers(this.response.headers),
      body: this.#shownBody(redact),
      method,
      path,
      detail: detail === undefined ? undefined : redact.text(detail),
    };
  }
}

/** Describes a redirect that the client did not follow, for an error. Returns `undefined` for any other answer. */
function describeRedirect(response: Response): string | undefined {
  if (response.type === "opaqueredirect")
    return "the answer is a redirect, but this runtime hides its target";
  if (response.status < 300 || response.status > 399) return undefined;
  const location = response.headers.get("location");
  return location ? `the client did not follow the redirect to ${location}` : undefined;
}

/** The longest body that the client reads, in bytes. */
const maxBodyBytes = 10 * 1024 * 1024;

export type BodyReader = ReadableStreamDefaultReader<Uint8Array>;

/** Reads a body, and parses it as JSON if possible. The content type does not matter. */
export async function readBody(body: BodyReader | string): Promise<Body> {
  const text = typeof body === "string" ? body : await readText(body);
  if (typeof text !== "string") return text;
  try {
    const value = parseExactly(text);
    return text.length > mostShown ? { value, kind: "json", long: text } : { value, kind: "json" };
  } catch {
    return text.trim() === "" ? { value: undefined, kind: "empty" } : { value: text, kind: "text" };
  }
}

const utf8 = new TextDecoder();

/** Returns the text, or the body that it is if it is too long. */
async function readText(reader: BodyReader): Promise<string | Body> {
  let text = "";
  let bytes = 0;
  let last: Uint8Array | undefined;
  // Use a stream decoder only for a body of several chunks: `utf8` decodes a single chunk ten times faster.
  let decoder: TextDecoder | undefined;
  while (bytes <= maxBodyBytes) {
    const { done, value } = await reader.read();
    if (done) return text + (decoder ?? utf8).decode(last);
    if (last) {
      decoder ??= new TextDecoder();
      text += decoder.decode(last, { stream: true });
    }
    last = value;
    bytes += value.byteLength;
  }
  // Free the connection. Do not wait, and ignore errors.
  reader.cancel().catch(() => {});
  return { value: text + (decoder ?? utf8).decode(last), kind: "cut" };
}
