import { parseArgs } from "node:util";
import { StayhookClient } from "../client/client.ts";
import { AuthenticationError, NotFoundError, PermissionDeniedError } from "../client/errors.ts";
import { InvalidArgumentError } from "../errors.ts";
import type { LogEntry } from "../logger.ts";
import { nearest } from "../options.ts";
import { version } from "../version.ts";
import { type Command, type Invocation, type Io, optionsOf } from "./command.ts";
import { config } from "./commands/config.ts";
import { consoleCommand } from "./commands/console.ts";
import { doctor } from "./commands/doctor.ts";
import { events } from "./commands/events.ts";
import { listen } from "./commands/listen.ts";
import { reconcile } from "./commands/reconcile.ts";
import { booking, listings } from "./commands/records.ts";
import { sandbox } from "./commands/sandbox.ts";
import { trigger } from "./commands/trigger.ts";
import { exitCodeOf, exitCodes, UsageError } from "./exit-code.ts";
import { helpOf, helpOfAll } from "./help.ts";
import { Output } from "./output.ts";

const commands: readonly Command[] = [
  config,
  listings,
  booking,
  trigger,
  listen,
  sandbox,
  events,
  consoleCommand,
  reconcile,
  doctor,
];

/** Runs one command line, and resolves to the exit code. Never rejects. */
export async function run(args: readonly string[], io: Io): Promise<number> {
  const out = new Output(io, args.includes("--json"));
  // Allow `stayhook --json listings`, too.
  const [first, ...rest] = args[0] === "--json" && args.length > 1 ? [...args.slice(1), "--json"] : args;
  // The client's base URL, for error messages.
  const platform: { url?: string | undefined } = {};
  try {
    if (first === undefined) {
      out.note(helpOfAll(commands));
      return exitCodes.usage;
    }
    if (first === "--version" || first === "-v" || first === "version") {
      out.result({ version }, () => version);
      return exitCodes.done;
    }
    if (first === "--help" || first === "-h" || (first === "help" && rest.length === 0)) {
      out.line(helpOfAll(commands));
      return exitCodes.done;
    }
    if (first === "help") {
      const { command, path } = find(rest);
      out.line(helpOf(command, path));
      return exitCodes.done;
    }
    const found = find([first, ...rest]);
    const connect = (url: string | undefined) => {
      const baseUrl = url ?? io.env.STAYHOOK_BASE_URL;
      const client = clientOf(baseUrl, io, out);
      platform.url = baseUrl?.replace(/\/+$/, "");
      return client;
    };
    return await start(found, io, out, { connect, describe: (error) => describe(error, platform.url) });
  } catch (error) {
    if (io.signal.aborted) return exitCodes.interrupted;
    const { name, status } = Object(error) as { readonly name?: string; readonly status?: number };
    out.error(describe(error, platform.url), { name, status });
    return exitCodeOf(error);
  }
}

interface Found {
  readonly command: Command;
  /** The names of the group and the command. */
  readonly path: readonly string[];
  readonly rest: readonly string[];
}

/** Finds the command that the arguments name. @throws UsageError */
function find(args: readonly string[]): Found {
  const named = (list: readonly Command[], name: string | undefined) =>
    list.find((command) => command.name === name);
  const [first = "", ...rest] = args;
  const command = named(commands, first);
  if (!command) throw unknownCommand(first, commands, []);
  // Options may stand before the name of the subcommand.
  const index = rest.findIndex((arg) => named(command.commands ?? [], arg));
  const below = named(command.commands ?? [], rest[index]);
  return below
    ? { command: below, path: [command.name, below.name], rest: rest.toSpliced(index, 1) }
    : { command, path: [command.name], rest };
}

function unknownCommand(name: string, list: readonly Command[], path: readonly string[]): UsageError {
  const see = `See ${["stayhook", ...path, "--help"].join(" ")}.`;
  if (name.startsWith("-")) return new UsageError(`The command must come before its options. ${see}`);
  const names = list.map((command) => command.name);
  const near = nearest(name, names);
  // Repeat plain words only. Anything else may be a secret.
  const shown = /^[a-z][a-z-]{0,19}$/i.test(name) ? `command ${name}` : "such command";
  const hint = near === undefined ? "" : ` Did you mean ${[...path, near].join(" ")}?`;
  return new UsageError(`There is no ${shown}.${hint} ${see}`);
}

interface Platform {
  connect(baseUrl: string | undefined): StayhookClient;
  describe(error: unknown): string;
}

async function start(
  { command, path, rest }: Found,
  io: Io,
  out: Output,
  { connect, describe }: Platform,
): Promise<number> {
  if (rest.includes("--help") || rest.includes("-h")) {
    out.line(helpOf(command, path));
    return exitCodes.done;
  }
  if (command.run === undefined) {
    const [first] = rest;
    if (first !== undefined) throw unknownCommand(first, command.commands ?? [], path);
    out.note(helpOf(command, path));
    return exitCodes.usage;
  }
  const { values, positionals } = parse(command, path, rest);
  const invocation: Invocation = {
    io,
    out,
    positionals,
    text: (name) => values[name] as string | undefined,
    texts: (name) => (values[name] as readonly string[] | undefined) ?? [],
    flag: (name) => values[name] === true,
    client: () => connect(values["base-url"] as string | undefined),
    describe,
  };
  return (await command.run(invocation)) ?? exitCodes.done;
}

/** Option names that people try for the access token. */
const secretOptions =
  /^--?(stayhook[-_]?)?(access[-_]?)?(token|api[-_]?key|key|secret|password|auth(orization)?|bearer)\b/i;

/** Reads the arguments of a command. Its errors never repeat a value, which may be a secret. @throws UsageError */
function parse(command: Command, path: readonly string[], args: readonly string[]) {
  const see = `See stayhook ${path.join(" ")} --help.`;
  const options = optionsOf(command);
  const parsed = (() => {
    try {
      return parseArgs({ args: [...args], options, allowPositionals: true, strict: true });
    } catch (error) {
      throw new UsageError(`${problemWith(args, command, error)} ${see}`);
    }
  })();
  const [least, most] = command.arguments ?? [0, 0];
  const count = parsed.positionals.length;
  if (count < least) throw new UsageError(`${command.takes} is missing. ${see}`);
  if (count > most) throw new UsageError(`There are too many arguments. ${see}`);
  return parsed as { values: Readonly<Record<string, unknown>>; positionals: readonly string[] };
}

function problemWith(args: readonly string[], command: Command, error: unknown): string {
  const options = optionsOf(command);
  const known = Object.entries(options).flatMap(([name, { short }]) => [
    `--${name}`,
    ...(short ? [`-${short}`] : []),
  ]);
  const given = args.filter((arg) => arg.startsWith("-")).map((arg) => arg.replace(/=.*/s, ""));
  const unknown = given.find((arg) => !known.includes(arg)) ?? "";
  if (secretOptions.test(unknown))
    return "The access token has no option, because other users of this machine can read options. Set STAYHOOK_ACCESS_TOKEN.";
  const { code } = error as { readonly code?: unknown };
  if (code === "ERR_PARSE_ARGS_UNKNOWN_OPTION") {
    const near = unknown.startsWith("--") ? nearest(unknown.slice(2), Object.keys(options)) : undefined;
    // In -xyz, x is the name. The rest may be a value.
    const shown = unknown.replace(/^(-[^-]).*$/s, "$1");
    return `There is no option ${shown}.${near === undefined ? "" : ` Did you mean --${near}?`}`;
  }
  for (const [index, arg] of args.entries()) {
    const [name = "", ...value] = arg.split("=");
    const type = options[name.replace(/^--/, "")]?.type;
    const next = args[index + 1];
    if (type === "boolean" && value.length > 0) return `${name} takes no value.`;
    if (type === "string" && value.length === 0 && (next === undefined || next.startsWith("-")))
      return `${name} requires a value.`;
  }
  return "The arguments cannot be read.";
}

/** @throws UsageError naming each missing setting; InvalidArgumentError for a setting that cannot be used */
function clientOf(baseUrl: string | undefined, { env }: Io, out: Output): StayhookClient {
  const { STAYHOOK_ACCESS_TOKEN: accessToken } = env;
  const missing = [
    baseUrl ? [] : ["STAYHOOK_BASE_URL (or --base-url) to the platform's URL"],
    accessToken ? [] : ["STAYHOOK_ACCESS_TOKEN to the access token"],
  ].flat();
  if (!baseUrl || !accessToken) throw new UsageError(`Set ${missing.join(" and ")}.`);
  const logger = ({ level, message }: LogEntry) => {
    if (level === "warn" || level === "error") out.warn(message.replace(/^stayhook: /, ""));
  };
  return new StayhookClient({ baseUrl, accessToken, logger });
}

/** An error's message, with the platform's URL and the setting to look at. */
function describe(error: unknown, platform: string | undefined): string {
  if (!(error instanceof Error)) return String(error);
  const message = (error.message || error.name)
    .replace("Is baseUrl right?", "Is STAYHOOK_BASE_URL right?")
    // The client's messages have only the path.
    .replace(/^([A-Z]+) \//, platform === undefined ? "$&" : `$1 ${platform}/`);
  // The platform's own sentence may end the message.
  const open = message.replace(/\.$/, "");
  if (error instanceof AuthenticationError || error instanceof PermissionDeniedError)
    return `${open}. Check STAYHOOK_ACCESS_TOKEN.`;
  if (error instanceof NotFoundError)
    return `${open}: is the base URL right? Set STAYHOOK_BASE_URL, or --base-url.`;
  if (error instanceof InvalidArgumentError && error.issues.some(({ path }) => path[0] === "baseUrl"))
    return `${open}. Set STAYHOOK_BASE_URL, or --base-url.`;
  return message;
}
