import { type Command, exitCodes, optionsOf } from "./command.ts";
import { commands } from "./commands.ts";
import type { Output, Row } from "./output.ts";

const section = (out: Output, title: string, rows: readonly Row[]): string[] => [
  "",
  `${title}:`,
  ...out.twoColumns(rows),
];

/** The help of `stayhook` itself. */
export function helpOfAll(out: Output): string {
  return [
    "Usage: stayhook <command> [options]",
    ...section(
      out,
      "Commands",
      commands.map(({ name, summary }) => [name, summary]),
    ),
    ...section(out, "Options", [
      ["--json", "print JSON; works with every command"],
      ["-h, --help", "print this help, or the help of a command"],
      ["-v, --version", "print the version"],
    ]),
    ...section(out, "Environment", [
      ["STAYHOOK_BASE_URL", "the platform's URL (or use --base-url)"],
      [
        "STAYHOOK_ACCESS_TOKEN",
        "the access token; it cannot be an option, because other users of this machine can read options",
      ],
      ["STAYHOOK_STORE", "the event store: an SQLite file or a database URL (or use --store)"],
      ["STAYHOOK_ENDPOINT", 'the public URL of your app, for "config ensure" (or use --to) and doctor'],
      ["STAYHOOK_ENDPOINT_BOOKINGS", "the endpoint for bookings (or use --bookings)"],
      ["STAYHOOK_ENDPOINT_LISTINGS", "the endpoint for listings (or use --listings)"],
      ["STAYHOOK_ENDPOINT_MESSAGES", "the endpoint for messages (or use --messages)"],
      [
        "STAYHOOK_TARGET",
        "the URL of your app on this machine, for sandbox, listen and trigger (or use --to)",
      ],
    ]),
    ...section(out, "Exit codes", [
      [exitCodes.done, "done"],
      [exitCodes.failed, "the command failed, or a check of doctor failed"],
      [exitCodes.usage, "wrong usage: an unknown command or option, an invalid value, or a missing setting"],
      [exitCodes.refused, "the platform refused the access token (401, 403)"],
      [exitCodes.notFound, "the booking, event, store or configuration does not exist"],
      [exitCodes.unreachable, "the platform is out of reach or cannot answer now (429, 5xx)"],
      [
        exitCodes.interrupted,
        'interrupted by Ctrl-C; sandbox, console, listen and "events ls --follow" run until Ctrl-C, and then end with 0',
      ],
    ]),
    ...exampleLines(out, ["stayhook sandbox --to http://127.0.0.1:3000/hooks"]),
  ].join("\n");
}

/** @param path - the names of the group and the command */
export function helpOf(
  command: Command & { readonly summary: string },
  path: readonly string[],
  out: Output,
): string {
  const { summary, description = "", commands: below, examples, table } = command;
  const options = Object.entries(optionsOf(command)).map(
    ([name, { short, value, help }]): Row => [
      `${short ? `-${short}, ` : ""}--${name}${value ? ` ${value}` : ""}`,
      help,
    ],
  );
  const usage = ["stayhook", ...path, below ? "<command>" : command.takes, "[options]"];
  const paragraphs = [`${summary[0]?.toUpperCase()}${summary.slice(1)}.`, ...description.split("\n\n")];
  return [
    ...out.wrap(`Usage: ${usage.filter(Boolean).join(" ")}`),
    ...paragraphs.filter(Boolean).flatMap((paragraph) => ["", ...out.wrap(paragraph)]),
    ...(table ? section(out, table.title, table.rows) : []),
    ...(below
      ? section(
          out,
          "Commands",
          below.map(({ name, takes, summary }) => [takes ? `${name} ${takes}` : name, summary]),
        )
      : []),
    ...section(out, "Options", options),
    ...exampleLines(out, examples),
  ].join("\n");
}

/** Breaks long examples as a shell allows it, so that users can copy them. */
function exampleLines(out: Output, examples: readonly string[]): string[] {
  const lines = examples.map((example) => `  ${out.wrap(example, 6).join(" \\\n    ")}`);
  return ["", examples.length === 1 ? "Example:" : "Examples:", ...lines];
}
