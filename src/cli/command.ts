import type { Readable } from "node:stream";
import type { StayhookClient } from "../client/client.ts";
import type { Output, Sink } from "./output.ts";

/** The streams, environment and signal of the process. Tests give their own. */
export interface Io {
  readonly stdin: Readable & { readonly isTTY?: boolean | undefined };
  readonly stdout: Sink;
  readonly stderr: Sink;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborts on Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal;
}

/** An option of a command, for parseArgs and for the help. */
export interface Option {
  readonly type: "string" | "boolean";
  readonly short?: string;
  /** The option may be given more than once. */
  readonly multiple?: boolean;
  /** The placeholder for the value in the help, such as `<url>`. */
  readonly value?: string;
  readonly help: string;
}

export type Options = Readonly<Record<string, Option>>;

/** The input and output of one run of a command. */
export interface Invocation {
  readonly io: Io;
  readonly out: Output;
  readonly positionals: readonly string[];
  /** The value of an option; `undefined` if the option is absent. */
  text(name: string): string | undefined;
  /** The values of an option that may be given more than once. */
  texts(name: string): readonly string[];
  flag(name: string): boolean;
  /** Makes the client from the environment. @throws UsageError naming each missing setting */
  client(): StayhookClient;
  /** The message of an error, with the platform's URL and the setting to look at. */
  describe(error: unknown): string;
}

/** A command, or a group of commands. */
export interface Command {
  readonly name: string;
  /** One line. */
  readonly summary: string;
  /** The arguments after the name, such as `<code>`. */
  readonly takes?: string;
  /** The smallest and the largest number of arguments. Default: none. */
  readonly arguments?: readonly [least: number, most: number];
  /** Further lines of its help. */
  readonly description?: string;
  readonly examples: readonly string[];
  readonly options?: Options;
  /** Whether the command sends requests to the platform, and so takes `--base-url` and the access token. */
  readonly asksPlatform?: boolean;
  readonly commands?: readonly Command[];
  /** Resolves to the exit code; `undefined` stands for 0. */
  readonly run?: (invocation: Invocation) => Promise<number | undefined>;
}

/** The options of a command, with the common options. */
export function optionsOf({ options, asksPlatform }: Command): Options {
  return {
    ...options,
    ...(asksPlatform && {
      "base-url": { type: "string", value: "<url>", help: "the platform's URL; default: STAYHOOK_BASE_URL" },
    }),
    json: { type: "boolean", help: "print JSON" },
    help: { type: "boolean", short: "h", help: "print this help" },
  };
}
