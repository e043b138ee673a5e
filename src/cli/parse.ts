import { parseArgs } from "node:util";
import { type Command, parseConfigOf } from "./command.ts";
import { UsageError } from "./exit-code.ts";

export interface Parsed {
  readonly values: Readonly<Record<string, unknown>>;
  readonly positionals: readonly string[];
}

/** Option names that people try for the access token. Errors must not repeat their values. */
const secretOptions =
  /^--?(stayhook[-_]?)?(access[-_]?)?(token|api[-_]?key|key|secret|password|auth(orization)?|bearer)\b/i;

/**
 * Reads the arguments of a command. Its errors never repeat a value, which may be a secret.
 *
 * @throws UsageError
 */
export function parse(command: Command, path: readonly string[], args: readonly string[]): Parsed {
  const name = ["stayhook", ...path].join(" ");
  const see = `see ${name} --help`;
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: parseConfigOf(command),
      allowPositionals: true,
      strict: true,
    });
    if (values.help !== true) checkCount(command, positionals.length, see);
    return { values, positionals };
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${describe(error, command, args)}; ${see}`);
  }
}

function checkCount(command: Command, count: number, see: string): void {
  const [least, most] = command.arguments ?? [0, 0];
  if (count < least) throw new UsageError(`${command.takes ?? "an argument"} is missing; ${see}`);
  if (count > most) throw new UsageError(`there are more arguments than it takes; ${see}`);
}

function describe(error: unknown, command: Command, args: readonly string[]): string {
  const known = Object.entries(parseConfigOf(command));
  const given = args.filter((arg) => /^-/.test(arg)).map((arg) => arg.replace(/=.*/s, ""));
  const unknown = given.find(
    (arg) => !known.some(([name, { short }]) => arg === `--${name}` || (short && arg === `-${short}`)),
  );
  if (unknown !== undefined && secretOptions.test(unknown)) {
    return "the access token is taken from STAYHOOK_ACCESS_TOKEN alone, as others on the machine can read options";
  }
  const { code } = error as { readonly code?: unknown };
  // In -xyz only the x is a name. The rest may be a value.
  if (code === "ERR_PARSE_ARGS_UNKNOWN_OPTION")
    return `there is no option ${unknown?.replace(/^(-[^-]).*$/s, "$1") ?? "of that name"}`;
  if (code === "ERR_PARSE_ARGS_INVALID_OPTION_VALUE") return culprit(known, args);
  return "the arguments cannot be read";
}

/** Says which option lacks its value, or has one that it does not take. */
function culprit(known: [string, { type: string }][], args: readonly string[]): string {
  for (const [index, arg] of args.entries()) {
    const [name, ...value] = arg.split("=");
    const type = known.find(([option]) => name === `--${option}`)?.[1].type;
    const next = args[index + 1];
    if (type === "boolean" && value.length > 0) return `${name} takes no value`;
    if (type === "string" && value.length === 0 && (next === undefined || next.startsWith("-")))
      return `${name} needs a value`;
  }
  return "an option is used wrongly";
}
