import { type Command, optionsOf } from "./command.ts";
import { describedExitCodes } from "./exit-code.ts";

/** The help of `stayhook` itself. */
export function helpOfAll(commands: readonly Command[]): string {
  return [
    "Usage: stayhook <command> [options]",
    "",
    "Commands:",
    ...columns(commands.map(({ name, summary }) => [name, summary])),
    "",
    "Options:",
    ...columns([
      ["--json", "print JSON, with every command"],
      ["-h, --help", "print help, also after a command"],
      ["--version", "print the version"],
    ]),
    "",
    "Environment:",
    ...columns([
      ["STAYHOOK_BASE_URL", "the platform's URL; or --base-url"],
      [
        "STAYHOOK_ACCESS_TOKEN",
        "the access token; there is no option, because other users of this machine can read options",
      ],
      ["STAYHOOK_STORE", "the store of the events: a file or a URL; or --store"],
      [
        "STAYHOOK_ENDPOINT_BOOKINGS",
        "the endpoint of a topic, also _LISTINGS and _MESSAGES; or --bookings and so on",
      ],
      ["STAYHOOK_TO", "one endpoint for sandbox, trigger, listen, doctor and config ensure; or --to"],
    ]),
    "",
    "Exit codes:",
    ...columns(describedExitCodes.map(([code, meaning]) => [String(code), meaning])),
    "",
    "Example:",
    "  stayhook sandbox --to http://127.0.0.1:3000/hooks",
  ].join("\n");
}

/** @param path - the names of the group and the command */
export function helpOf(command: Command, path: readonly string[]): string {
  const name = ["stayhook", ...path].join(" ");
  const takes = command.commands ? "<command>" : command.takes;
  const lines = [
    `Usage: ${[name, takes, "[options]"].filter(Boolean).join(" ")}`,
    "",
    sentence(command.summary),
  ];
  if (command.description) lines.push("", command.description);
  if (command.commands) {
    const listed = command.commands.map((each) => [
      [each.name, each.takes].filter(Boolean).join(" "),
      each.summary,
    ]);
    lines.push("", "Commands:", ...columns(listed as [string, string][]));
  }
  const options = Object.entries(optionsOf(command)).map(
    ([option, { short, value, help }]): [string, string] => [
      [short ? `-${short}, ` : "", `--${option}`, value ? ` ${value}` : ""].join(""),
      help,
    ],
  );
  lines.push("", "Options:", ...columns(options));
  lines.push("", command.examples.length === 1 ? "Example:" : "Examples:");
  lines.push(...command.examples.map((example) => `  ${example}`));
  return lines.join("\n");
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}

const sentence = (text: string): string => `${text[0]?.toUpperCase()}${text.slice(1)}.`;
