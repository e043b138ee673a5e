import { parseArgs } from "node:util";
import { StayhookClient } from "../client/client.ts";
import { AuthenticationError, NotFoundError, PermissionDeniedError } from "../client/client-errors.ts";
import { InvalidArgumentError } from "../errors.ts";
import type { LogEntry } from "../logger.ts";
import { nearest } from "../option-names.ts";
import { version } from "../version.ts";
import { type Command, exitCodeOf, exitCodes, type Options, UsageError } from "./command.ts";
import { config } from "./commands/config.ts";
import { consoleCommand } from "./commands/console.ts";
import { doctor } from "./commands/doctor.ts";
import { events } from "./commands/events.ts";
import { listen } from "./commands/listen.ts";
import { booking, listings } from "./commands/listings-and-booking.ts";
import { reconcile } from "./commands/reconcile.ts";
import { sandbox } from "./commands/sandbox.ts";
import { trigger } from "./commands/trigger.ts";
import { type Io, Output } from "./output.ts";

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
  const platform: Platform = {};
  try {
    return await runCommand(args, io, out, platform);
  } catch (error) {
    if (io.signal.aborted) return exitCodes.interrupted;
    const { name, status } = Object(error) as { readonly name?: string; readonly status?: number };
    out.error(describe(error, platform), { name, status });
    return exitCodeOf(error);
  }
}

/** The client's base URL, for error messages. */
interface Platform {
  url?: string | undefined;
}

const asksForHelp = (arg: string): boolean => arg === "--help" || arg === "-h";

async function runCommand(args: readonly string[], io: Io, out: Output, platform: Platform): Promise<number> {
  // `--json` may stand before the command: `stayhook --json listings`.
  const [first, ...others] = args[0] === "--json" && args.length > 1 ? [...args.slice(1), "--json"] : args;
  if (first === undefined) {
    out.note(helpOfAll());
    return exitCodes.usage;
  }
  if (first === "--version" || first === "-v" || first === "version") {
    out.result({ version }, () => version);
    return exitCodes.done;
  }
  const line = first === "help" ? [...others, "--help"] : [first, ...others];
  if (asksForHelp(line[0]!)) {
    out.line(helpOfAll());
    return exitCodes.done;
  }
  const { command, path, rest } = find(line);
  if (rest.some(asksForHelp)) {
    out.line(helpOf(command, path));
    return exitCodes.done;
  }
  if (command.run === undefined) {
    const [unknown] = rest;
    if (unknown !== undefined) throw unknownCommand(unknown, command.commands ?? [], path);
    out.note(helpOf(command, path));
    return exitCodes.usage;
  }
  const { values, positionals } = parse(command, path, rest);
  const code = await command.run({
    io,
    out,
    positionals,
    text: (name) => values[name] as string | undefined,
    texts: (name) => (values[name] as readonly string[] | undefined) ?? [],
    flag: (name) => values[name] === true,
    client: () => {
      const { "base-url": baseUrl = io.env.STAYHOOK_BASE_URL } = values as { readonly "base-url"?: string };
      const client = clientOf(baseUrl, io, out);
      platform.url = baseUrl?.replace(/\/+$/, "");
      return client;
    },
    describe: (error) => describe(error, platform),
  });
  return code ?? exitCodes.done;
}

/** Finds the command by the names in the arguments. @throws UsageError */
function find(args: readonly string[]) {
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
  // Repeat the given name in the error only if the name is a plain word, because any other text may be a secret.
  const shown = /^[a-z][a-z-]{0,19}$/i.test(name) ? `command ${name}` : "such command";
  const hint = near === undefined ? "" : ` Did you mean "${["stayhook", ...path, near].join(" ")}"?`;
  return new UsageError(`There is no ${shown}.${hint} ${see}`);
}

/** The options of a command, with the common options. */
function optionsOf({ options, asksPlatform }: Command): Options {
  return {
    ...options,
    ...(asksPlatform && {
      "base-url": { value: "<url>", help: "the platform's URL; default: STAYHOOK_BASE_URL" },
    }),
    json: { help: "print JSON" },
    help: { short: "h", help: "print this help" },
  };
}

/** Matches the options that users may guess for the access token. None of these options exists. */
const secretOption =
  /^--?(stayhook[-_]?)?(access[-_]?)?(token|api[-_]?key|key|secret|password|auth(orization)?|bearer)\b/i;

/** Reads a command's arguments. No error repeats a value, because the value may be a secret. @throws UsageError */
function parse(command: Command, path: readonly string[], args: readonly string[]) {
  const options = optionsOf(command);
  const types = Object.entries(options).map(([name, { value, short, multiple = false }]) => [
    name,
    { type: value === undefined ? "boolean" : "string", multiple, ...(short && { short }) },
  ]);
  // With `strict: true`, the errors of `parseArgs` would show values, which may be secrets.
  const { values, positionals, tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(types),
    strict: false,
    tokens: true,
  });
  const problems = tokens.map((token) => token.kind === "option" && problemWith(token, options));
  const [least, most] = command.arguments ?? [0, 0];
  const problem =
    (args.some((arg) => secretOption.test(arg)) &&
      "The access token cannot be given as an option, because other users of this machine can read options. Set STAYHOOK_ACCESS_TOKEN.") ||
    problems.find(Boolean) ||
    (positionals.length < least && `The argument ${command.takes?.split(" ")[0]} is missing.`) ||
    (positionals.length > most && "There are too many arguments.");
  if (problem) throw new UsageError(`${problem} See stayhook ${path.join(" ")} --help.`);
  return { values, positionals };
}

/** An option as the user typed it. */
interface GivenOption {
  readonly name: string;
  readonly rawName: string;
  readonly value?: string | undefined;
  /** Whether the value is in the same argument as the name: `--to=URL`. */
  readonly inlineValue?: boolean | undefined;
}

function problemWith({ name, rawName, value, inlineValue }: GivenOption, options: Options) {
  if (!Object.hasOwn(options, name)) {
    const near = rawName.startsWith("--") ? nearest(name, Object.keys(options)) : undefined;
    return `There is no option ${rawName}.${near === undefined ? "" : ` Did you mean --${near}?`}`;
  }
  const takesValue = options[name]!.value !== undefined;
  if (!takesValue && value !== undefined) return `${rawName} takes no value.`;
  // In `--to --json`, the value is missing. In `--to -`, the value is `-`, which means stdin.
  const isMissing = value === undefined || (!inlineValue && /^-./s.test(value));
  return takesValue && isMissing ? `${rawName} requires a value.` : undefined;
}

/** @throws UsageError naming each missing setting; InvalidArgumentError for an invalid setting */
function clientOf(baseUrl: string | undefined, { env }: Io, out: Output): StayhookClient {
  const { STAYHOOK_ACCESS_TOKEN: accessToken } = env;
  const missing = [
    baseUrl ? [] : ["STAYHOOK_BASE_URL (the platform's URL; or use --base-url)"],
    accessToken ? [] : ["STAYHOOK_ACCESS_TOKEN (the access token)"],
  ].flat();
  if (!baseUrl || !accessToken) throw new UsageError(`Set ${missing.join(" and ")}.`);
  const logger = ({ level, message }: LogEntry) => {
    if (level === "warn" || level === "error") out.warn(message.replace(/^stayhook: /, ""));
  };
  return new StayhookClient({ baseUrl, accessToken, logger });
}

/** Returns an error's message, with the platform's URL and the setting to check. */
function describe(error: unknown, { url }: Platform): string {
  if (!(error instanceof Error)) return String(error);
  const message = (error.message || error.name)
    .replace("Is baseUrl right?", "Is STAYHOOK_BASE_URL right?")
    // The client's messages have only the path. Add the platform's URL before the path.
    .replace(/^([A-Z]+) \//, url === undefined ? "$&" : `$1 ${url}/`);
  // Remove a period at the end, because the code below appends text.
  const open = message.replace(/\.$/, "");
  if (error instanceof AuthenticationError || error instanceof PermissionDeniedError)
    return `${open}. Check STAYHOOK_ACCESS_TOKEN.`;
  if (error instanceof NotFoundError)
    return `${open}. Is the base URL right? Check STAYHOOK_BASE_URL or --base-url.`;
  if (error instanceof InvalidArgumentError && error.issues.some(({ path }) => path[0] === "baseUrl"))
    return `${open}. Set STAYHOOK_BASE_URL or --base-url.`;
  return message;
}

/** The help of `stayhook` itself. */
function helpOfAll(): string {
  return [
    "Usage: stayhook <command> [options]",
    "",
    "Commands:",
    ...columns(commands.map(({ name, summary }) => [name, summary])),
    "",
    "Options:",
    ...columns([
      ["--json", "print JSON; works with every command"],
      ["-h, --help", "print this help, or the help of a command"],
      ["--version", "print the version"],
    ]),
    "",
    "Environment:",
    ...columns([
      ["STAYHOOK_BASE_URL", "the platform's URL (or use --base-url)"],
      [
        "STAYHOOK_ACCESS_TOKEN",
        "the access token; it cannot be an option, because other users of this machine can read options",
      ],
      ["STAYHOOK_STORE", "the event store: an SQLite file or a database URL (or use --store)"],
      ["STAYHOOK_ENDPOINT_BOOKINGS", "the endpoint for bookings (or use --bookings)"],
      ["STAYHOOK_ENDPOINT_LISTINGS", "the endpoint for listings (or use --listings)"],
      ["STAYHOOK_ENDPOINT_MESSAGES", "the endpoint for messages (or use --messages)"],
      ["STAYHOOK_ENDPOINT", 'the public URL of your app, for "config ensure" (or use --to) and doctor'],
      [
        "STAYHOOK_TARGET",
        "the URL of your app on this machine, for sandbox, listen and trigger (or use --to)",
      ],
    ]),
    "",
    "Exit codes:",
    ...columns([
      [exitCodes.done, "done"],
      [exitCodes.failed, "the command failed, or a check of doctor failed"],
      [exitCodes.usage, "wrong usage: an unknown command or option, an invalid value, or a missing setting"],
      [exitCodes.refused, "the platform refused the access token (401, 403)"],
      [exitCodes.notFound, "the booking, event, store or configuration does not exist"],
      [exitCodes.unreachable, "the platform is out of reach or cannot answer now (429, 5xx)"],
      [exitCodes.interrupted, "interrupted by Ctrl-C"],
    ]),
    "",
    "Example:",
    "  stayhook sandbox --to http://127.0.0.1:3000/hooks",
  ].join("\n");
}

/** @param path - the names of the group and the command */
function helpOf(command: Command, path: readonly string[]): string {
  const { summary, description, commands: below, examples } = command;
  const options = Object.entries(optionsOf(command)).map(
    ([name, { short, value, help }]) =>
      [`${short ? `-${short}, ` : ""}--${name}${value ? ` ${value}` : ""}`, help] as const,
  );
  const usage = ["stayhook", ...path, below ? "<command>" : command.takes, "[options]"];
  return [
    `Usage: ${usage.filter(Boolean).join(" ")}`,
    "",
    `${summary[0]?.toUpperCase()}${summary.slice(1)}.`,
    ...(description ? ["", description] : []),
    ...(below
      ? [
          "",
          "Commands:",
          ...columns(
            below.map(({ name, takes, summary }) => [takes ? `${name} ${takes}` : name, summary] as const),
          ),
        ]
      : []),
    "",
    "Options:",
    ...columns(options),
    "",
    examples.length === 1 ? "Example:" : "Examples:",
    ...examples.map((example) => `  ${example}`),
  ].join("\n");
}

function columns(rows: readonly (readonly [left: string | number, right: string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => String(left).length));
  return rows.map(([left, right]) => `  ${String(left).padEnd(width)}  ${right}`);
}
