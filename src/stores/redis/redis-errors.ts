import { StayhookError } from "../../errors.ts";
import { NoAnswerError } from "../call-errors.ts";
import { networkHint } from "../server-pool.ts";
import { FIRST_VERSION, LATEST_VERSION } from "./redis-migrations.ts";

/** The server of a store, as its errors name it. */
export interface NamedServer {
  /** The name of the server for messages, without a password. */
  readonly name: string;
  /** Passwords. The store removes them from all messages, because the server may repeat them in an error. */
  readonly secrets: readonly string[];
  /** Whether the URL or the client asks for TLS. */
  readonly isTls: boolean;
}

/** Explains Redis's error codes in the store's error messages. */
const MEANINGS: Readonly<Record<string, string>> = {
  OOM: "the memory is full (maxmemory), so Redis accepts no new events",
  MISCONF: "Redis cannot write to its disk, so it accepts no new events",
  READONLY: "this Redis server is a replica, but the store needs the primary",
  LOADING: "Redis is still loading its data",
  MASTERDOWN: "this Redis server is a replica that has lost its primary",
  NOREPLICAS: "Redis has fewer replicas than min-replicas-to-write",
  CLUSTERDOWN: "the Redis cluster is down",
  BUSY: "another client's script blocks Redis",
  MOVED:
    "this server is a node of a Redis cluster, and the client knows only this node. Pass a Cluster of ioredis as the option client",
  NOAUTH: "Redis asks for a password",
  WRONGPASS: "Redis refuses the user name or the password",
  NOPERM: "the ACL of Redis does not allow this user to run the command",
  NOMETA:
    "the keys of this store are gone. If the cluster is moving the keys to another node, wait for the end of the move. If somebody deleted the keys, restart this process",
};

/** Explains other errors by a part of their text. */
const OTHER_MEANINGS: readonly (readonly [text: RegExp, meaning: string])[] = [
  [
    /unknown command.*\bINFO\b/i,
    "Redis has no command INFO, which the ready check of ioredis sends. Set the option enableReadyCheck of your client to false, or use database 0 in the URL",
  ],
  [
    /undeclared key/i,
    "this server runs only scripts that declare their keys. Start Dragonfly with --default_lua_flags=allow-undeclared-keys",
  ],
];

/** The error codes of a server that is not the primary, such as the old primary after a failover. */
const NOT_PRIMARY = ["READONLY", "MASTERDOWN"];

/** The call failed before its command was sent, so Redis did not run the command. */
export class NotSentError extends StayhookError {}

export function notReachable(server: NamedServer, within: number, cause: unknown): NotSentError {
  const hint = schemeHint(server, cause);
  const last = cause === undefined ? hint : `: ${explain(cause, server.secrets)}${networkHint(cause)}${hint}`;
  return new NotSentError(
    `redisStore (${server.name}): Redis could not be reached within ${within} ms${last}`,
    causeOf(cause, server.secrets),
  );
}

/** Says whether to use TLS, if a server of the other one does so. Without TLS, it may wait for more data. */
function schemeHint({ isTls }: NamedServer, cause: unknown): string {
  const text = cause instanceof Error ? `${cause.message} ${(cause as NodeJS.ErrnoException).code}` : "";
  if (isTls && /^$|wrong version number|packet length too long/.test(text))
    return ". If the server speaks no TLS at this port, begin the URL with redis://, or leave out tls in your client";
  if (!isTls && /ECONNRESET|EPIPE|Connection is closed|got "\\u0015"/.test(text))
    return ". If the server speaks TLS at this port, begin the URL with rediss://, or set tls in your client";
  return "";
}

export function failed(server: NamedServer, cause: unknown): StayhookError {
  if (cause instanceof StayhookError) return cause;
  const { name, secrets } = server;
  const text = `redisStore (${name}): the call failed: ${explain(cause, secrets)}`;
  // ioredis gave up a command that Redis may have run.
  return isReply(cause)
    ? new StayhookError(text, causeOf(cause, secrets))
    : new NoAnswerError(text, causeOf(cause, secrets));
}

/** @param what - what happened to a call that Redis may have run */
export function noAnswer({ name }: NamedServer, what: string): NoAnswerError {
  return new NoAnswerError(`redisStore (${name}): Redis ${what}`);
}

/** Whether Redis sent this error. Other errors come from the connection. */
export function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}

export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && codes.includes(codeOf(error) ?? "");
}

export function isNotPrimary(error: unknown): boolean {
  return hasCode(error, ...NOT_PRIMARY);
}

/** Whether Redis refused the call only for some time, and has not run it. */
export function isSoonOver(error: unknown): boolean {
  return hasCode(error, "BUSY", "LOADING");
}

function explain(cause: unknown, secrets: readonly string[]): string {
  const message = redact(cause instanceof Error ? cause.message : String(cause), secrets);
  const meaning =
    (cause instanceof Error && MEANINGS[codeOf(cause) ?? ""]) ||
    OTHER_MEANINGS.find(([text]) => text.test(message))?.[1];
  return meaning ? `${meaning} (${message})` : message;
}

/** Copies the error without its command, which may contain a password or a guest's booking. */
function causeOf(cause: unknown, secrets: readonly string[]): ErrorOptions {
  if (!(cause instanceof Error)) return {};
  const copy = new Error(redact(cause.message, secrets));
  copy.name = cause.name;
  const { code } = cause as NodeJS.ErrnoException;
  if (typeof code === "string") Object.assign(copy, { code });
  return { cause: copy };
}

/** Removes secrets from a message. A server that does not know AUTH repeats the password in its error. */
function redact(message: string, secrets: readonly string[]): string {
  const told = message.replace(/,? with args beginning with:[\s\S]*/, "");
  return secrets.reduce((text, secret) => (secret === "" ? text : text.replaceAll(secret, "***")), told);
}

function codeOf({ message }: Error): string | undefined {
  // Inside a script, Redis 7.0 reports a missing permission without the code NOPERM.
  if (message.includes("user executing the script can't")) return "NOPERM";
  return /^(?:ERR Error running script.*?: )?-?([A-Z]{4,}|OOM|ERR)\b/.exec(message)?.[1];
}

/** Newer versions of stayhook only add keys and fields, so this version can use newer keys. */
export function problemWith(keys: string, version: number): string | undefined {
  if (version >= LATEST_VERSION) return undefined;
  if (version > 0 && version < FIRST_VERSION)
    return `stayhook 1.2 or an earlier version wrote the keys ${keys}:*, and this version cannot use them. Let that version handle all its events. Then set the option prefix to another value, or delete the keys, and run a pass of the reconciler`;
  const found = version === 0 ? "do not exist" : `have schema version ${version}`;
  return `the keys ${keys}:* ${found}, this version of stayhook needs schema version ${LATEST_VERSION}, and the option migrate is false. Start one process without migrate: false, which creates or upgrades the keys`;
}
