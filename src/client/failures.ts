// The errors of a request that got no complete answer.

import { errorText } from "../error-text.ts";
import { StayhookError } from "../errors.ts";
import type { SentRequest } from "./answer.ts";
import {
  AbortError,
  AccessTokenError,
  ConnectionError,
  ConnectionTimeoutError,
  shorten,
} from "./client-errors.ts";
import { mostShown, type Redactor, redactor, textsIn } from "./redact.ts";

/** A request of a call. */
export interface TimedRequest extends SentRequest {
  readonly url: URL;
  readonly signal: AbortSignal | undefined;
  /** The time limit of each attempt, ms. */
  readonly timeout: number;
  /** Whether the attempt still waits for its access token, so that nothing was sent. */
  asksToken: boolean;
}

// The codes are those of Node and Bun.
const reasons: readonly { codes: RegExp; reason: string; hint: string }[] = [
  { codes: /^(ECONNREFUSED|ConnectionRefused)$/, reason: "connection refused", hint: " Is baseUrl right?" },
  { codes: /^ENOTFOUND$/, reason: "host not found", hint: " Is baseUrl right?" },
  {
    codes: /^EAI_AGAIN$/,
    reason: "DNS is not ready yet",
    hint: " Try again in a moment. If the error stays, check the DNS server of this machine or container.",
  },
  { codes: /^(ECONNRESET|EPIPE|UND_ERR_SOCKET|ConnectionClosed)$/, reason: "connection lost", hint: "" },
  { codes: /(?:)/, reason: "no complete answer", hint: "" },
];

/** Makes the error for a call that got no complete answer. An error of this package stays as it is. */
export function failureOf(cause: unknown, call: TimedRequest, timedOut: boolean): StayhookError {
  const { method, url, signal } = call;
  // Check for an abort first, because the signal's reason may be a `StayhookError`, too.
  if (signal?.aborted && (cause === signal.reason || !(cause instanceof StayhookError)))
    return new AbortError(`${method} ${call.path} was aborted.`, { cause: signal.reason });
  if (cause instanceof StayhookError) return cause;
  const redact = withoutSecrets(cause, call);
  const request = `${method} ${shorten(redact.text(url.origin + url.pathname))}`;
  if (timedOut && call.asksToken) {
    // The cause tells the handler that the account is at fault, and not the platform.
    const late = new AccessTokenError(`The accessToken function gave no token within ${call.timeout} ms.`);
    return new ConnectionTimeoutError(`${request} was not sent: ${late.message}`, { cause: late });
  }
  if (timedOut)
    return new ConnectionTimeoutError(`${request}: no complete answer within ${call.timeout} ms.`);
  if (isMistake(cause)) return mistakeError(`\`fetch\` threw ${errorText(cause)}`, call, cause);
  const detail = detailOf(cause);
  const { reason, hint } = reasons.find(({ codes }) => codes.test(detail))!;
  const shown = detail === "" ? "" : ` (${shorten(redact.text(detail))})`;
  return new ConnectionError(`${request}: ${reason}${shown}.${hint}`, { cause });
}

/** Removes secrets from the runtime's error, which may show the answer that it could not read. Returns the redactor. */
function withoutSecrets(cause: unknown, { secrets, secretsInAnswer }: TimedRequest): Redactor {
  const texts = textsIn(cause);
  const further = secretsInAnswer?.(texts.map(({ text }) => text.slice(0, mostShown)).join("\n")) ?? [];
  const redact = redactor([...secrets, ...further]);
  for (const { of, name, text } of texts) {
    const shown = redact.text(text);
    if (shown !== text) Reflect.defineProperty(of, name, { value: shown });
  }
  return redact;
}

/** Makes the error for a `fetch` that is wrong itself. A retry would not help, and the platform is not at fault. */
export function mistakeError(
  problem: string,
  { method, url, secrets }: TimedRequest,
  cause?: unknown,
): StayhookError {
  const redact = redactor(secrets);
  const request = `${method} ${shorten(redact.text(url.origin + url.pathname))}`;
  const message = `${request}: ${shorten(redact.text(problem), 400)}. Correct the client's option \`fetch\`.`;
  return new StayhookError(message, cause === undefined ? undefined : { cause });
}

/** Returns the first code in an error's chain of causes, such as `ECONNREFUSED`, or else the last message. */
function detailOf(error: unknown, depth = 5): string {
  const { code, message, cause } = Object(error) as Readonly<Record<string, unknown>>;
  if (typeof code === "string") return code;
  const below = cause === undefined || depth === 0 ? "" : detailOf(cause, depth - 1);
  return below || (typeof message === "string" ? message : "");
}

/** Returns the problem with what `fetch` returned, or `undefined`. A status, headers and `text()` suffice. */
export function problemWithResponse(response: unknown): string | undefined {
  const { status, headers, text, body, bodyUsed } = Object(response) as Partial<Response>;
  if (typeof status !== "number" || typeof headers?.get !== "function" || typeof text !== "function")
    return "did not return a Response";
  return bodyUsed === true || body?.locked === true
    ? "returned a Response whose body has been read already. Read a clone() of it instead"
    : undefined;
}

const mistakenCodes = /^(ERR_INVALID_|ERR_MISSING_ARGS|UND_ERR_INVALID_ARG|UND_ERR_NOT_SUPPORTED)/;
// The engines' words for a mistake. Some name a property, which may be called "fetch", so look for these first.
const mistakenWords =
  /is not (a function|defined|iterable|a constructor|an object)|cannot (read|set|destructure|convert|access)|illegal invocation|expected signal/i;
// The runtimes' words for a network failure, which is a TypeError in all of them.
const networkWords =
  /fetch|network|connection|terminated|load failed|socket|offline|tim(ed|e) ?out|request|dns|tls|cert/i;

/** Whether an error comes from wrong code or wrong arguments. */
function isMistake(error: unknown, depth = 5): boolean {
  const { name, message, code, cause } = Object(error) as Readonly<Record<string, unknown>>;
  if (typeof code === "string") return mistakenCodes.test(code);
  if (cause !== undefined) return depth > 0 && isMistake(cause, depth - 1);
  if (name === "ReferenceError" || name === "RangeError") return true;
  return name === "TypeError" && (mistakenWords.test(String(message)) || !networkWords.test(String(message)));
}
