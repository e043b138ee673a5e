import type { Sandbox, SandboxBooking, SandboxListing } from "../../testing/index.ts";
import { type Output, printable } from "../output.ts";

type Changed = SandboxBooking | SandboxListing;

interface TypedCommand {
  readonly usage: string;
  readonly help: string;
  readonly run: (sandbox: Sandbox, rest: string, out: Output) => Promise<Changed | undefined>;
}

/** The commands by their names. */
const commands: Readonly<Record<string, TypedCommand>> = {
  request: {
    usage: "request [code]",
    help: "a guest requests a booking",
    run: (sandbox, code) => sandbox.bookings.request(code ? { bookingCode: code } : {}),
  },
  book: {
    usage: "book [code]",
    help: "a guest books by Instant Book",
    run: (sandbox, code) => sandbox.bookings.instantBook(code ? { bookingCode: code } : {}),
  },
  approve: {
    usage: "approve <code>",
    help: "the host approves",
    run: (sandbox, code) => sandbox.bookings.approve(code),
  },
  decline: {
    usage: "decline <code>",
    help: "the host declines",
    run: (sandbox, code) => sandbox.bookings.decline(code),
  },
  cancel: {
    usage: "cancel <code>",
    help: "the booking is cancelled",
    run: (sandbox, code) => sandbox.bookings.cancel(code),
  },
  alter: {
    usage: "alter <code> <field>=<value> ...",
    help: "change a booking: alter HX3K9 checkIn=2026-07-03",
    run: async (sandbox, rest) => {
      const [code = "", ...pairs] = rest.split(/\s+/);
      return sandbox.bookings.alter(code, Object.fromEntries(pairs.map(field)));
    },
  },
  redeliver: {
    usage: "redeliver [eventId]",
    help: "deliver a notification once more; default: the last one",
    run: async (sandbox, eventId, out) => {
      const last = sandbox.deliveries.findLast((delivery) => delivery.eventId !== undefined)?.eventId;
      const wanted = eventId || last;
      if (wanted === undefined) throw new Error("Nothing was delivered so far.");
      // Do not wait for retries. Each delivery prints its own line.
      sandbox.redeliver(wanted).catch((error: Error) => out.error(error.message));
      return undefined;
    },
  },
  submit: {
    usage: "submit [name]",
    help: "submit a new listing for review",
    run: (sandbox, name) => sandbox.listings.submit(name ? { listingName: name } : {}),
  },
  publish: {
    usage: "publish <id>",
    help: "a listing goes live",
    run: (sandbox, id) => sandbox.listings.publish(Number(id)),
  },
  hide: {
    usage: "hide <id>",
    help: "a listing is hidden",
    run: (sandbox, id) => sandbox.listings.hide(Number(id)),
  },
  send: {
    usage: "send <json>",
    help: "send any notification or text to the configured endpoint",
    run: async (sandbox, text, out) => {
      // Do not wait for retries. Each delivery prints its own line.
      sandbox.send(parsed(text)).catch((error: Error) => out.error(error.message));
      return undefined;
    },
  },
  fault: {
    usage: "fault <status> [route]",
    help: "answer requests with a status: fault 503 GET /v2/listings",
    run: async (sandbox, rest) => {
      const [, status = "", route] = /^(\S*)\s*(.*)$/s.exec(rest) ?? [];
      const fault = { status: Number(status), ...(route ? { route } : {}) };
      sandbox.faults.set([...sandbox.faults.list(), fault]);
      return undefined;
    },
  },
  heal: {
    usage: "heal",
    help: "end all faults",
    run: async (sandbox) => {
      sandbox.faults.clear();
      return undefined;
    },
  },
  list: {
    usage: "list",
    help: "list all bookings and listings",
    run: async (sandbox, _rest, out) => {
      for (const record of [...sandbox.bookings.list(), ...sandbox.listings.list()]) show(record, out);
      return undefined;
    },
  },
  help: {
    usage: "help",
    help: "list the commands",
    run: async (_sandbox, _rest, out) => {
      out.note(typedHelp);
      return undefined;
    },
  },
};

const width = Math.max(...Object.values(commands).map(({ usage }) => usage.length));

export const typedHelp: string = [
  ...Object.values(commands).map(({ usage, help }) => `  ${usage.padEnd(width)}  ${help}`),
  `  ${"quit".padEnd(width)}  stop the sandbox`,
].join("\n");

/** Runs one typed line. Resolves to `false` for quit. Never rejects. */
export async function runTyped(line: string, sandbox: Sandbox, out: Output): Promise<boolean> {
  const [, name = "", rest = ""] = /^\s*(\S*)\s*(.*?)\s*$/s.exec(line) ?? [];
  if (name === "") return true;
  if (name === "quit" || name === "exit") return false;
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!command) {
    out.error(`There is no command ${name}. Type help.`);
    return true;
  }
  try {
    const changed = await command.run(sandbox, rest, out);
    if (changed) show(changed, out);
  } catch (error) {
    out.error((error as Error).message);
  }
  return true;
}

function show(record: Changed, out: Output): void {
  out.item({ kind: "record", ...record }, () => {
    const { status } = record;
    const name =
      "bookingCode" in record
        ? `booking ${printable(record.bookingCode)}`
        : `listing ${printable(record.listingId)} (${printable(record.listingName)})`;
    return `${name} is ${out.style("cyan", printable(status))}`;
  });
}

/** @throws Error if the text is not `<field>=<value>` */
function field(text: string): [name: string, value: unknown] {
  const [, name, value] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new Error("Write each field as checkIn=2026-07-03.");
  return [name, name === "listingId" ? Number(value) : value];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
