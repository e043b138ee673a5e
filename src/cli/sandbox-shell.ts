import { once } from "node:events";
import { nearest } from "../option-names.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { SandboxBooking } from "../sandbox/sandbox-bookings.ts";
import type { SandboxListing } from "../sandbox/sandbox-listings.ts";
import { type Target, targetOf, type Verb, verbs } from "../sandbox/verbs.ts";
import { type Output, printable, type Row } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** The verbs of the sandbox that users can type, and the commands of the shell itself. */
export const shellHelp: readonly Row[] = [
  ...Object.entries(verbs).flatMap(([name, { usage, help }]): Row[] =>
    usage === undefined ? [] : [[`${name} ${usage}`.trim(), help]],
  ),
  ["list", "list all bookings and listings"],
  ["account [id]", "with --accounts: choose the account of the commands, or list the accounts"],
  ["help", "list the commands"],
  ["quit", "stop the sandbox"],
];

const commandNames = shellHelp.map(([command]) => String(command).split(" ", 1)[0]!);

/**
 * Runs the typed lines one after the other, until `quit` or until the signal aborts.
 *
 * @param first - handles the first line. If absent, the first line is a command
 */
export async function runShell(
  { terminal, out }: { readonly terminal: Terminal; readonly out: Output },
  sandbox: Sandbox,
  first?: (line: string) => void,
): Promise<void> {
  const { io } = terminal;
  const interrupted = io.signal.aborted ? undefined : once(io.signal, "abort");
  const take = async () => {
    let takesUrl = first !== undefined;
    const shell: Shell = { target: targetOf(sandbox, undefined) };
    for await (const line of terminal.lines()) {
      if (takesUrl) first?.(line.trim());
      else if (!(await runLine(line, shell, out))) return;
      takesUrl = false;
    }
    // Keep running after the end of stdin, because the sandbox may run in the background.
    await interrupted;
  };
  await Promise.race([interrupted, take()]);
}

/** The state of the shell: the account that the commands act on. */
interface Shell {
  target: Target;
}

/** Runs one typed line. Resolves to `false` for `quit`. Never rejects. */
async function runLine(line: string, shell: Shell, out: Output): Promise<boolean> {
  const [, name = "", rest = ""] = /^\s*(\S*)\s*(.*?)\s*$/s.exec(line) ?? [];
  if (name === "quit" || name === "exit") return false;
  const { account } = shell.target;
  try {
    if (name === "help") out.note(out.twoColumns(shellHelp).join("\n"));
    else if (name === "account") chooseAccount(rest, shell, out);
    else if (name === "list")
      for (const record of [...account.bookings.list(), ...account.listings.list()]) show(record, out);
    else if (name !== "") await runVerb(name, rest, shell.target, out);
  } catch (error) {
    out.error((error as Error).message);
  }
  return true;
}

/** Chooses the account with this id. Without an id, lists the accounts. */
function chooseAccount(id: string, shell: Shell, out: Output): void {
  const { sandbox } = shell.target;
  if (id !== "") shell.target = targetOf(sandbox, id);
  else if (sandbox.accounts.length === 0)
    throw new Error("This sandbox has no accounts. Start it with --accounts a17,b2.");
  const { accountId } = shell.target.account;
  const others = sandbox.accounts.filter((other) => other !== accountId);
  const text = `The commands act on account ${accountId}.${others.length > 0 ? ` Others: ${others.join(", ")}.` : ""}`;
  out.item({ kind: "account", account: accountId, others }, () => text);
}

async function runVerb(name: string, rest: string, target: Target, out: Output): Promise<void> {
  const verb = Object.hasOwn(verbs, name) ? verbs[name] : undefined;
  if (verb?.usage === undefined) {
    const near = nearest(name, commandNames);
    const hint = near === undefined ? "" : ` Did you mean ${near}?`;
    throw new Error(`There is no command ${name}.${hint} To list the commands, type: help`);
  }
  if (verb.usage.includes("<") && rest === "")
    throw new Error(`${name} needs an argument: ${name} ${verb.usage}`);
  const { text, records } = await verb.run(target, fieldsOf(verb, rest));
  if (records) for (const record of records) show(record, out);
  else out.item({ kind: "message", text }, () => printable(text));
}

/** Gives the typed words the names of the verb's fields. @throws Error if a word is not `<field>=<value>` */
function fieldsOf({ words = [], takesPairs = false }: Verb, rest: string): URLSearchParams {
  const fields = new URLSearchParams();
  let left = rest;
  for (const [index, name] of words.entries()) {
    const isLast = index === words.length - 1 && !takesPairs;
    const [, word = "", others = ""] = (isLast ? /^(.*)$/s : /^(\S*)\s*(.*)$/s).exec(left) ?? [];
    if (word !== "") fields.set(name, word);
    left = others;
  }
  for (const pair of takesPairs ? left.split(/\s+/) : []) {
    const [, name, value] = /^([^=]+)=(.*)$/s.exec(pair) ?? [];
    if (name === undefined || value === undefined)
      throw new Error("Write each field as <field>=<value>, such as checkIn=2026-07-03.");
    fields.set(name, value);
  }
  return fields;
}

function show(record: SandboxBooking | SandboxListing, out: Output): void {
  out.item({ kind: "record", ...record }, () => {
    const { status } = record;
    const name =
      "bookingCode" in record
        ? `booking ${printable(record.bookingCode)}`
        : `listing ${printable(record.listingId)} (${printable(record.listingName)})`;
    return `${name} is ${out.style("cyan", printable(status))}`;
  });
}
