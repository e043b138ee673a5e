import { StayhookError } from "../../errors.ts";

/** What Redis's error codes mean for a store. */
const MEANINGS: Readonly<Record<string, string>> = {
  OOM: "its memory is full (maxmemory), so it takes no new events",
  MISCONF: "it cannot write to its disk, so it takes no new events",
  READONLY: "it is a replica, and a store needs the primary",
  LOADING: "it is still loading its data",
  MASTERDOWN: "it is a replica without its primary",
  NOREPLICAS: "it has fewer replicas than min-replicas-to-write",
  CLUSTERDOWN: "the cluster is down",
  BUSY: "another client's script blocks it",
  NOAUTH: "it asks for a password",
  WRONGPASS: "it refuses the user name or the password",
  NOPERM: "its ACL does not let this user do it",
  NOMETA:
    "the keys of this store are gone. A cluster that moves their slot does this until the move is over. If somebody deleted them, restart this process",
};

/** Answers of a server that is not the primary, such as the old primary after a failover. */
const NOT_PRIMARY = ["READONLY", "MASTERDOWN", "LOADING"];

/** Nothing was sent, so Redis did nothing. */
export class NotSentError extends StayhookError {}

interface Named {
  readonly name: string;
  readonly secrets: Secrets;
}

export function notReachable({ name, secrets }: Named, within: number, cause: unknown): NotSentError {
  const last = cause === undefined ? "" : `: ${describe(cause, secrets)}`;
  return new NotSentError(
    `redisStore (${name}): Redis could not be reached within ${within} ms${last}`,
    causeOf(cause, secrets),
  );
}

export function failed({ name, secrets }: Named, cause: unknown): StayhookError {
  if (cause instanceof StayhookError) return cause;
  return new StayhookError(
    `redisStore (${name}): the call failed: ${describe(cause, secrets)}`,
    causeOf(cause, secrets),
  );
}

/** Whether the server answered with this error. Others come from the connection. */
export function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}

export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && codeOf(error) === code;
}

export function isNotPrimary(error: unknown): boolean {
  return NOT_PRIMARY.some((code) => hasCode(error, code));
}

/** Texts that no message may show, even if the server repeats them. */
export type Secrets = readonly string[];

function describe(cause: unknown, secrets: Secrets): string {
  const message = redact(cause instanceof Error ? cause.message : String(cause), secrets);
  const meaning = cause instanceof Error && MEANINGS[codeOf(cause) ?? ""];
  return meaning ? `${meaning} (${message})` : message;
}

/** Copies the error without its command, which may hold a password or a guest's booking. */
function causeOf(cause: unknown, secrets: Secrets): ErrorOptions {
  if (!(cause instanceof Error)) return {};
  const copy = new Error(redact(cause.message, secrets));
  copy.name = cause.name;
  const { code } = cause as NodeJS.ErrnoException;
  if (typeof code === "string") Object.assign(copy, { code });
  return { cause: copy };
}

/** A server that does not know AUTH repeats the password in its error. */
function redact(message: string, secrets: Secrets): string {
  const told = message.replace(/,? with args beginning with:[\s\S]*/, "");
  return secrets.reduce((text, secret) => (secret === "" ? text : text.replaceAll(secret, "***")), told);
}

function codeOf({ message }: Error): string | undefined {
  // Redis 7.0 has no code for this error inside a script.
  if (message.includes("user executing the script can't")) return "NOPERM";
  return /^(?:ERR Error running script.*?: )?-?([A-Z]{4,}|OOM|ERR)\b/.exec(message)?.[1];
}
