import type { ParseArgsOptionsConfig } from "node:util";
import type { StayhookClient } from "../client/client.ts";
import type { Io } from "./io.ts";
import type { Output } from "./output.ts";

/** An option of a command, for parseArgs and for the help. */
export interface Option {
  readonly type: "string" | "boolean";
  readonly short?: string | undefined;
  /** May be given more than once. */
  readonly multiple?: boolean | undefined;
  /** The placeholder for the value in the help, such as `<url>`. */
  readonly value?: string | undefined;
  readonly help: string;
}

/** The input and output of one run of a command. */
export interface Invocation {
  readonly io: Io;
  readonly out: Output;
  readonly positionals: readonly string[];
  /** The value of an option; `undefined` where it was not given. */
  text(name: string): string | undefined;
  /** The values of an option that may be given more than once. */
  texts(name: string): readonly string[];
  flag(name: string): boolean;
  /** Makes the client from the environment. @throws UsageError naming each missing setting */
  client(): StayhookClient;
}

/** A command, or a group of them. */
export interface Command {
  readonly name: string;
  /** One line. */
  readonly summary: string;
  /** The arguments after the name, such as `<code>`. */
  readonly takes?: string | undefined;
  /** The least and the greatest number of arguments. Default: none. */
  readonly arguments?: readonly [least: number, most: number] | undefined;
  /** Further lines of its help. */
  readonly description?: string | undefined;
  readonly examples: readonly string[];
  readonly options?: Readonly<Record<string, Option>> | undefined;
  /** Whether the command sends requests to the platform, and so takes `--base-url` and the access token. */
  readonly asksPlatform?: boolean | undefined;
  readonly commands?: readonly Command[] | undefined;
  /** Resolves to the exit code; nothing for 0. */
  readonly run?: ((invocation: Invocation) => Promise<number | undefined>) | undefined;
}

export const commonOptions: Readonly<Record<string, Option>> = {
  json: { type: "boolean", help: "print JSON" },
  help: { type: "boolean", short: "h", help: "print this help" },
};

export const platformOptions: Readonly<Record<string, Option>> = {
  "base-url": { type: "string", value: "<url>", help: "the platform's; default: STAYHOOK_BASE_URL" },
};

export function optionsOf(command: Command): Readonly<Record<string, Option>> {
  return { ...command.options, ...(command.asksPlatform ? platformOptions : {}), ...commonOptions };
}

export function parseConfigOf(command: Command): ParseArgsOptionsConfig {
  return Object.fromEntries(
    Object.entries(optionsOf(command)).map(([name, { type, short, multiple }]) => [
      name,
      { type, ...(short ? { short } : {}), ...(multiple ? { multiple } : {}) },
    ]),
  );
}
