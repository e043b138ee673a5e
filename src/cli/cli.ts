import { ConnectionError } from "../client/errors.ts";
import { InvalidArgumentError } from "../errors.ts";
import { version } from "../version.ts";
import type { Command, Invocation } from "./command.ts";
import { booking } from "./commands/booking.ts";
import { config } from "./commands/config.ts";
import { doctor } from "./commands/doctor.ts";
import { events } from "./commands/events.ts";
import { listings } from "./commands/listings.ts";
import { reconcile } from "./commands/reconcile.ts";
import { sandbox } from "./commands/sandbox.ts";
import { trigger } from "./commands/trigger.ts";
import { connect } from "./connection.ts";
import { exitCodeOf, exitCodes, UsageError } from "./exit-code.ts";
import { helpOf, helpOfAll } from "./help.ts";
import type { Io } from "./io.ts";
import { Output } from "./output.ts";
import { parse } from "./parse.ts";

const commands: readonly Command[] = [config, listings, booking, trigger, sandbox, events, reconcile, doctor];

/** Runs one command line, and resolves to the exit code. Never rejects. */
export async function run(args: readonly string[], io: Io): Promise<number> {
  const out = new Output(io, args.includes("--json"));
  try {
    return await dispatch(args, io, out);
  } catch (error) {
    if (io.signal.aborted) return exitCodes.interrupted;
    report(error, out);
    return exitCodeOf(error);
  }
}

async function dispatch(given: readonly string[], io: Io, out: Output): Promise<number> {
  // Allow `stayhook --json listings`, too.
  const args = given[0] === "--json" && given.length > 1 ? [...given.slice(1), "--json"] : given;
  const [first] = args;
  if (first === undefined) {
    out.note(helpOfAll(commands));
    return exitCodes.usage;
  }
  if (first === "--version" || first === "-v" || first === "version") {
    out.result({ version }, () => version);
    return exitCodes.done;
  }
  if (first === "--help" || first === "-h" || (first === "help" && args.length === 1)) {
    out.line(helpOfAll(commands));
    return exitCodes.done;
  }
  const { command, path, rest } = find(first === "help" ? args.slice(1) : args);
  if (first === "help") {
    out.line(helpOf(command, path));
    return exitCodes.done;
  }
  return start(command, path, rest, io, out);
}

async function start(
  command: Command,
  path: readonly string[],
  rest: readonly string[],
  io: Io,
  out: Output,
): Promise<number> {
  const asksHelp = rest.includes("--help") || rest.includes("-h");
  if (asksHelp || (command.run === undefined && rest.length === 0)) {
    const text = helpOf(command, path);
    if (asksHelp) out.line(text);
    else out.note(text);
    return asksHelp ? exitCodes.done : exitCodes.usage;
  }
  if (command.run === undefined)
    throw new UsageError(`there is no such command; see stayhook ${path.join(" ")} --help`);
  const { values, positionals } = parse(command, path, rest);
  const invocation: Invocation = {
    io,
    out,
    positionals,
    text: (name) => values[name] as string | undefined,
    texts: (name) => (values[name] as readonly string[] | undefined) ?? [],
    flag: (name) => values[name] === true,
    client: () => connect(io.env, values["base-url"] as string | undefined, (message) => out.warn(message)),
  };
  return (await command.run(invocation)) ?? exitCodes.done;
}

/** Finds the command that the arguments name. @throws UsageError */
function find(args: readonly string[]): {
  readonly command: Command;
  readonly path: readonly string[];
  readonly rest: readonly string[];
} {
  const named = (list: readonly Command[], name: string | undefined) =>
    list.find((command) => command.name === name);
  const [first, ...rest] = args;
  const command = named(commands, first);
  if (!command) throw new UsageError("there is no such command; see stayhook --help");
  // Options may stand before the name of the subcommand.
  const index = rest.findIndex((arg) => named(command.commands ?? [], arg));
  const below = named(command.commands ?? [], rest[index]);
  return below
    ? { command: below, path: [command.name, below.name], rest: rest.toSpliced(index, 1) }
    : { command, path: [command.name], rest };
}

function report(error: unknown, out: Output): void {
  const { message, ...details } = describe(error);
  out.error(message, details);
}

function describe(error: unknown): {
  readonly name: string;
  readonly message: string;
  readonly status: number | undefined;
} {
  if (!(error instanceof Error)) return { name: "Error", message: String(error), status: undefined };
  const { status } = error as { readonly status?: unknown };
  const hint = error instanceof InvalidArgumentError ? baseUrlHint(error) : "";
  return {
    name: error.name,
    message: `${messageOf(error)}${hint}`,
    status: typeof status === "number" ? status : undefined,
  };
}

/** The message, with the environment variable in place of the client option. */
function messageOf(error: Error): string {
  const message = error.message || error.name;
  return error instanceof ConnectionError
    ? message.replace("Is baseUrl right?", "Is STAYHOOK_BASE_URL right?")
    : message;
}

function baseUrlHint({ issues }: InvalidArgumentError): string {
  return issues.some(({ path }) => path[0] === "baseUrl") ? " (STAYHOOK_BASE_URL, or --base-url)" : "";
}
