import type { Issue } from "../../errors.ts";

/** An answer, for any server to send. */
export interface ReceiveResult {
  /** The HTTP status of the answer. */
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Record<string, string>;
  /** The body of the answer; may be empty. */
  readonly body: string;
}

/** Why a request was refused before its body was parsed, or why its notification could not be recorded. */
export type Refusal =
  | "closing"
  | "method"
  | "verify"
  | "verify-timeout"
  | "too-large"
  | "body-timeout"
  | "aborted"
  | "already-read"
  | "store"
  | "store-timeout"
  | "backlog"
  | "internal";

interface Row {
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  readonly headers?: Record<string, string>;
}

const soon = { "retry-after": "5" };
const notNow = { status: 503, title: "Service Unavailable", headers: soon } as const;

const rows: Readonly<Record<Refusal, Row>> = {
  closing: { ...notNow, detail: "Shutting down." },
  method: {
    status: 405,
    title: "Method Not Allowed",
    detail: "Notifications are sent by POST.",
    headers: { allow: "POST" },
  },
  verify: { status: 401, title: "Unauthorized", detail: "The request was not accepted." },
  "verify-timeout": { ...notNow, detail: "The request could not be checked in time." },
  "too-large": { status: 413, title: "Content Too Large", detail: "The body is too large." },
  "body-timeout": { status: 408, title: "Request Timeout", detail: "The body did not arrive in time." },
  aborted: { status: 400, title: "Bad Request", detail: "The request ended before its body did." },
  "already-read": {
    status: 500,
    title: "Internal Server Error",
    detail: "The body could not be read.",
  },
  store: { ...notNow, detail: "The notification could not be recorded." },
  "store-timeout": { ...notNow, detail: "The notification could not be recorded in time." },
  backlog: { ...notNow, detail: "Too many notifications wait to be handled." },
  internal: { status: 500, title: "Internal Server Error", detail: "Something went wrong." },
};

/** The platform, or a monitor, checks that the endpoint can be reached. */
export function reachable(): ReceiveResult {
  return { status: 200, headers: {}, body: "" };
}

/** The event is recorded, now or before. */
export function accepted(): ReceiveResult {
  return { status: 200, headers: { "content-type": "application/json" }, body: '{"received":true}' };
}

export function refused(reason: Refusal): ReceiveResult {
  const { status, title, detail, headers } = rows[reason];
  return problem(status, { title, status, detail }, headers);
}

/** Names each field. Repeats nothing of the request. */
export function invalid(issues: readonly Issue[]): ReceiveResult {
  const errors = issues.map(({ path, message }) => ({ path, message }));
  const detail = "The body is not a valid notification.";
  return problem(400, { title: "Bad Request", status: 400, detail, errors });
}

function problem(status: number, body: object, headers?: Record<string, string>): ReceiveResult {
  return {
    status,
    headers: { "content-type": "application/problem+json", ...headers },
    body: JSON.stringify(body),
  };
}
