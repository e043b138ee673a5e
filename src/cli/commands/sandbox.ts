import { once } from "node:events";
import { createInterface } from "node:readline";
import { StayhookClient } from "../../client/client.ts";
import {
  createSandbox,
  type Sandbox,
  type SandboxBooking,
  type SandboxListing,
  type SandboxObservation,
} from "../../testing/index.ts";
import type { Command, Invocation, Options } from "../command.ts";
import { originOf, toGiven, toOption } from "../endpoints.ts";
import { exitCodes, UsageError } from "../exit-code.ts";
import { integerOf, readDuration } from "../options.ts";
import { type Output, printable } from "../output.ts";

const deliveryOptions: Options = {
  duplicates: { type: "string", value: "<n>", help: "further deliveries of each notification; default: 0" },
  retry: {
    type: "string",
    value: "<waits>",
    help: "waits before each retry, until the answer is 200: 1s,10s,1m; default: no retry",
  },
  timeout: { type: "string", value: "<time>", help: "how long to wait for an answer; default: 30s" },
  delay: {
    type: "string",
    value: "<time>",
    help: "wait before each delivery: 2s, or 1s-5s for a random one; default: 0",
  },
  shuffle: { type: "boolean", help: "deliver in random order" },
  drop: { type: "string", value: "<rate>", help: "the share of notifications to lose, from 0 to 1" },
};

/** Reads the delivery options. The sandbox checks their ranges. @throws UsageError */
function deliveryOf(invocation: Invocation) {
  const { text, flag } = invocation;
  const drop = text("drop");
  const retry = durationsOf(invocation, "retry", ",");
  const timeout = durationsOf(invocation, "timeout");
  const delay = durationsOf(invocation, "delay", "-");
  if (delay && delay.length > 2)
    throw new UsageError("--delay must be a time such as 2s, or a range such as 1s-5s.");
  const [least = 0, most = least] = delay ?? [];
  return {
    duplicates: integerOf(invocation, "duplicates"),
    shuffle: flag("shuffle"),
    // `Number("")` is 0.
    drop: drop === undefined ? undefined : Number(drop.trim() || Number.NaN),
    retry: retry && { schedule: retry },
    timeout: timeout?.[0],
    delay: delay && ([least, most] as const),
  };
}

/** Reads an option with one or several durations, in ms. @throws UsageError */
function durationsOf({ text }: Invocation, name: string, separator?: string): number[] | undefined {
  const given = text(name);
  const parts = separator === undefined || given === undefined ? [given ?? ""] : given.split(separator);
  const durations = parts.map((part) => readDuration(part.trim()));
  if (given === undefined) return undefined;
  const valid = durations.filter((each) => each !== undefined);
  if (valid.length < durations.length)
    throw new UsageError(
      `--${name} must be a time such as 500ms or 2s. Separate several with ${separator ?? "a comma"}.`,
    );
  return valid;
}

const time = (date: Date): string => date.toISOString().slice(11, 23);

/** Prints a line for a request or a delivery. */
function tell(out: Output, event: SandboxObservation): void {
  if (event.kind === "request") {
    const { method, path, status, receivedAt } = event;
    out.item(event, () => {
      const answered = out.style(status < 400 ? "green" : "red", String(status));
      return `${out.style("dim", time(receivedAt))} <- ${method} ${printable(path)}: ${answered}`;
    });
    return;
  }
  const { url, ...rest } = event;
  out.item({ ...rest, to: originOf(url) }, () => {
    const { sentAt, topic, eventId, attempt, duplicate, status, error, duration } = event;
    const answered = out.style(status === 200 ? "green" : "red", printable(status ?? error));
    const which = [attempt > 1 ? `attempt ${attempt}` : "", duplicate ? "duplicate" : ""]
      .filter(Boolean)
      .join(", ");
    const what = `${topic} ${printable(eventId)}${which ? ` (${which})` : ""}`;
    return `${out.style("dim", time(sentAt))} -> ${what} to ${originOf(url)}: ${answered} in ${Math.round(duration ?? 0)} ms`;
  });
}

function announce(out: Output, sandbox: Sandbox, ownToken: boolean): void {
  const { url, seed } = sandbox;
  out.item({ kind: "listening", url, seed }, () =>
    [
      `The platform's sandbox listens on ${out.style("bold", url)}, seed ${seed}`,
      `  export STAYHOOK_BASE_URL=${url}${ownToken ? "" : ` STAYHOOK_ACCESS_TOKEN=${sandbox.accessToken}`}`,
      `Open ${url} in a browser to follow deliveries and to change records, or type ${out.style("bold", "help")}.`,
    ].join("\n"),
  );
}

type Typed = readonly [
  usage: string,
  help: string,
  run: (sandbox: Sandbox, rest: string, out: Output) => unknown,
];

/** The commands to type. The usage begins with the name. */
const typedCommands: readonly Typed[] = [
  [
    "request [code]",
    "a guest requests a booking",
    ({ bookings }, bookingCode) => bookings.request(bookingCode ? { bookingCode } : {}),
  ],
  [
    "book [code]",
    "a guest books by Instant Book",
    ({ bookings }, bookingCode) => bookings.instantBook(bookingCode ? { bookingCode } : {}),
  ],
  ["approve <code>", "the host approves", ({ bookings }, code) => bookings.approve(code)],
  ["decline <code>", "the host declines", ({ bookings }, code) => bookings.decline(code)],
  ["cancel <code>", "the booking is cancelled", ({ bookings }, code) => bookings.cancel(code)],
  [
    "alter <code> <field>=<value> ...",
    "change a booking: alter HX3K9 checkIn=2026-07-03",
    ({ bookings }, rest) => {
      const [code = "", ...pairs] = rest.split(/\s+/);
      return bookings.alter(code, Object.fromEntries(pairs.map(field)));
    },
  ],
  [
    "submit [name]",
    "submit a new listing for review",
    ({ listings }, listingName) => listings.submit(listingName ? { listingName } : {}),
  ],
  ["publish <id>", "a listing goes live", ({ listings }, id) => listings.publish(Number(id))],
  ["hide <id>", "a listing is hidden", ({ listings }, id) => listings.hide(Number(id))],
  [
    "redeliver [eventId]",
    "deliver a notification once more; default: the last one",
    (sandbox, eventId, out) => {
      const last = sandbox.deliveries.findLast((delivery) => delivery.eventId !== undefined)?.eventId;
      const wanted = eventId || last;
      if (wanted === undefined) throw new Error("Nothing was delivered so far.");
      // Do not wait for retries. Each delivery prints its own line.
      sandbox.redeliver(wanted).catch((error: Error) => out.error(error.message));
    },
  ],
  [
    "send <json>",
    "send any notification or text to the configured endpoint",
    (sandbox, text, out) => void sandbox.send(parsed(text)).catch((error: Error) => out.error(error.message)),
  ],
  [
    "fault <status> [route]",
    "answer requests with a status: fault 503 GET /v2/listings",
    ({ faults }, rest) => {
      const [, status = "", route] = /^(\S*)\s*(.*)$/s.exec(rest) ?? [];
      faults.set([...faults.list(), { status: Number(status), ...(route ? { route } : {}) }]);
    },
  ],
  ["heal", "end all faults", ({ faults }) => faults.clear()],
  [
    "list",
    "list all bookings and listings",
    ({ bookings, listings }, _rest, out) => {
      for (const record of [...bookings.list(), ...listings.list()]) show(record, out);
    },
  ],
  ["help", "list the commands", (_sandbox, _rest, out) => out.note(typedHelp)],
  ["quit", "stop the sandbox", () => {}],
];

const width = Math.max(...typedCommands.map(([usage]) => usage.length));

const typedHelp: string = typedCommands
  .map(([usage, help]) => `  ${usage.padEnd(width)}  ${help}`)
  .join("\n");

/** Runs one typed line. Resolves to `false` for quit. Never rejects. */
async function runTyped(line: string, sandbox: Sandbox, out: Output): Promise<boolean> {
  const [, name = "", rest = ""] = /^\s*(\S*)\s*(.*?)\s*$/s.exec(line) ?? [];
  if (name === "") return true;
  if (name === "quit" || name === "exit") return false;
  const [usage = "", , run] = typedCommands.find(([usage]) => usage.split(" ")[0] === name) ?? [];
  try {
    if (!run) throw new Error(`There is no command ${name}. Type help.`);
    if (usage.includes("<") && rest === "") throw new Error(`${name} needs an argument: ${usage}`);
    const changed = (await run(sandbox, rest, out)) as SandboxBooking | SandboxListing | undefined;
    if (changed) show(changed, out);
  } catch (error) {
    out.error((error as Error).message);
  }
  return true;
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

/**
 * Runs the typed commands one after the other, until `quit` or the signal.
 *
 * @param first - takes the first line, if it is not a command
 */
async function takeCommands(
  { io, out }: Invocation,
  sandbox: Sandbox,
  first?: (line: string) => Promise<void>,
): Promise<void> {
  const lines = createInterface({ input: io.stdin });
  const quit = new AbortController();
  let before: Promise<unknown> = Promise.resolve();
  let failure: { readonly error: unknown } | undefined;
  const takeFirst = (line: string) =>
    first!(line).catch((error) => {
      failure = { error };
      quit.abort();
    });
  let isFirst = first !== undefined;
  lines.on("line", (line) => {
    const take = isFirst
      ? () => takeFirst(line.trim())
      : () => runTyped(line, sandbox, out).then((goesOn) => goesOn || quit.abort());
    isFirst = false;
    before = before.then(take);
  });
  const ended = AbortSignal.any([io.signal, quit.signal]);
  try {
    // The end of stdin does not end the sandbox, because it may run in the background.
    if (!ended.aborted) await once(ended, "abort");
    if (failure) throw failure.error;
  } finally {
    lines.close();
  }
}

export const sandbox: Command = {
  name: "sandbox",
  summary: "run the platform's sandbox as a server, and change its bookings and listings by hand",
  description: `Prints a line for each request and each delivery, until quit or Ctrl-C. The access token is
STAYHOOK_ACCESS_TOKEN, or "sandbox" without it. A time without a unit is in ms. Commands to type:

${typedHelp}`,
  examples: [
    "stayhook sandbox --to http://127.0.0.1:3000/hooks --duplicates 1",
    "stayhook sandbox --to - --retry 1s,10s,1m --timeout 5s --delay 1s-5s < url.txt",
  ],
  options: {
    port: { type: "string", value: "<port>", help: "default: 4010; 0 for a free port" },
    host: { type: "string", value: "<host>", help: "default: 127.0.0.1" },
    ...toOption("configure this endpoint for all topics, with topic=<topic> added for each"),
    seed: { type: "string", value: "<integer>", help: "repeats the codes, ids and order of an earlier run" },
    ...deliveryOptions,
  },
  run: async (invocation) => {
    const { io, out, text } = invocation;
    const accessToken = io.env.STAYHOOK_ACCESS_TOKEN || undefined;
    const to = toGiven(invocation);
    const made = createSandbox({
      seed: integerOf(invocation, "seed"),
      accessToken,
      delivery: deliveryOf(invocation),
      observe: (event) => tell(out, event),
    });
    const port = integerOf(invocation, "port") ?? 4010;
    await listen(made, { port, host: text("host") });
    try {
      announce(out, made, accessToken !== undefined);
      if (to !== undefined && to !== "-") await configure(made, to);
      await takeCommands(invocation, made, to === "-" ? (url) => configure(made, url) : undefined);
    } finally {
      await made.close();
    }
    return exitCodes.done;
  },
};

async function listen(made: Sandbox, where: { port: number; host: string | undefined }): Promise<void> {
  try {
    await made.listen(where);
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === "EADDRINUSE")
      throw new UsageError(
        `Port ${where.port} is in use. Give another one with --port, or 0 for a free port.`,
      );
    throw error;
  }
}

/** Configures the endpoint through the API, as an app does when it starts. */
async function configure(made: Sandbox, to: string): Promise<void> {
  const client = new StayhookClient({ baseUrl: made.url, accessToken: made.accessToken });
  await client.webhookConfig.ensure({ endpoints: to });
}
