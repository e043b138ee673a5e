import { problemWithShared, sharedEndpoints } from "../../client/config-input.ts";
import { parseDuration } from "../../duration.ts";
import { type ConfigurableSandbox, createSandboxWith } from "../../sandbox/create-sandbox.ts";
import { recordOf, type SandboxObservation } from "../../sandbox/observations.ts";
import { defaultAccessToken } from "../../sandbox/options.ts";
import type { Sandbox, SandboxAccount } from "../../sandbox/sandbox.ts";
import { integerOf, listeningOn } from "../arguments.ts";
import { type Command, type Invocation, type Options, UsageError } from "../command.ts";
import { Output, printable } from "../output.ts";
import { runShell, shellHelp } from "../sandbox-shell.ts";
import { fileKeeper } from "../sandbox-state.ts";
import { terminalOf } from "../terminal.ts";
import { addAccount, toGiven, toOption } from "../url-options.ts";
import { originOf } from "./trigger.ts";

const deliveryOptions: Options = {
  duplicates: { value: "<n>", help: "the number of extra deliveries of each notification; default: 0" },
  retry: {
    value: "<waits>",
    help: "the waits before the retries, such as 1s,10s,1m; the answer 200 ends the retries; default: none",
  },
  timeout: { value: "<time>", help: "how long to wait for the endpoint's answer; default: 30s" },
  delay: {
    value: "<time>",
    help: "how long to wait before each delivery: 2s, or 1s-5s for a random wait; default: 0",
  },
  shuffle: { help: "deliver in random order" },
  drop: { value: "<rate>", help: "the share of deliveries to drop, from 0 (none) to 1 (all)" },
};

const durationForms: Readonly<Record<string, string>> = {
  retry: "a list of times such as 1s,10s,1m",
  delay: "a time such as 2s, or a range such as 1s-5s",
};

/** Reads the delivery options. The sandbox checks their ranges. @throws UsageError */
function deliveryOf(invocation: Invocation) {
  const { text, flag } = invocation;
  const drop = text("drop");
  const schedule = durationsOf(invocation, "retry", ",");
  const [timeout] = durationsOf(invocation, "timeout") ?? [];
  const delay = durationsOf(invocation, "delay", "-");
  if (delay && delay.length > 2) throw new UsageError(`--delay must be ${durationForms.delay}.`);
  const [least = 0, most = least] = delay ?? [];
  return {
    duplicates: integerOf(invocation, "duplicates"),
    shuffle: flag("shuffle"),
    // An empty value must be invalid, but `Number("")` is 0.
    drop: drop === undefined ? undefined : Number(drop.trim() || Number.NaN),
    retry: schedule && { schedule },
    timeout,
    delay: delay && ([least, most] as const),
  };
}

/** Reads an option with one or several durations. A number without a unit is in ms. @throws UsageError */
function durationsOf({ text }: Invocation, name: string, separator?: string): number[] | undefined {
  const given = text(name);
  if (given === undefined) return undefined;
  const parts = separator === undefined ? [given] : given.split(separator);
  return parts.map((part) => {
    const trimmed = part.trim();
    const duration = /^\d+$/.test(trimmed) ? Number(trimmed) : parseDuration(trimmed);
    if (duration !== undefined) return duration;
    throw new UsageError(`--${name} must be ${durationForms[name] ?? "a time such as 500ms or 2s"}.`);
  });
}

/** Prints a line for a request or a delivery. */
function tell(out: Output, event: SandboxObservation): void {
  if (event.kind === "request") {
    const { method, path, status, receivedAt } = event;
    const answered = out.style(status < 400 ? "green" : "red", String(status));
    out.item(
      event,
      () => `${out.clock(receivedAt)} ${accountIn(event)}<- ${method} ${printable(path)}: ${answered}`,
    );
    return;
  }
  const { url, ...rest } = event;
  const to = originOf(url);
  out.item({ ...rest, to }, () => {
    const { sentAt, topic, eventId, attempt, duplicate, duration, notification } = event;
    const { booking, listing } = recordOf(notification);
    const details = [attempt > 1 ? `attempt ${attempt}` : [], duplicate ? "duplicate" : []].flat().join(", ");
    const subject = [topic, booking ?? listing, eventId].filter((part) => part !== undefined).map(printable);
    const what = `${subject.join(" ")}${details && ` (${details})`} to ${to}`;
    return `${out.clock(sentAt)} ${accountIn(event)}-> ${what}: ${out.answer(event)} in ${Math.round(duration ?? 0)} ms`;
  });
}

/** The account of a request or a delivery, for its line. */
const accountIn = ({ account }: SandboxObservation): string => (account === undefined ? "" : `${account} `);

function announce(out: Output, sandbox: Sandbox, ownToken: boolean): void {
  const { url, seed, accounts } = sandbox;
  const hasAccounts = accounts.length > 0;
  const token = ownToken || hasAccounts ? "" : ` STAYHOOK_ACCESS_TOKEN=${sandbox.accessToken}`;
  const start = ownToken ? "your STAYHOOK_ACCESS_TOKEN" : defaultAccessToken;
  const tokens = `It has the accounts ${accounts.join(", ")}. The token of an account is ${start}-<account>.\n`;
  out.item(
    { kind: "listening", url, seed, ...(hasAccounts && { accounts }) },
    () => `The sandbox listens on ${out.style("bold", url)} and uses the seed ${seed}.
${hasAccounts ? tokens : ""}To connect your app, run this command in its shell:
  export STAYHOOK_BASE_URL=${url}${token}
Open ${url} in a browser to follow deliveries and to change records. To list commands, type ${out.style("bold", "help")}.`,
  );
}

export const sandbox: Command = {
  description: `Prints a line for each request and each delivery, until you type quit or press Ctrl-C. The access
token is the value of STAYHOOK_ACCESS_TOKEN. If STAYHOOK_ACCESS_TOKEN is not set, the access token is
"${defaultAccessToken}". A time without a unit is in ms.`,
  table: { title: "Commands while the sandbox runs", rows: shellHelp },
  examples: [
    "stayhook sandbox --to http://127.0.0.1:3000/hooks --duplicates 1",
    "stayhook sandbox --demo --state sandbox.json",
    "stayhook sandbox --to - --retry 1s,10s,1m --timeout 5s --delay 1s-5s < url.txt",
  ],
  options: {
    port: { value: "<port>", help: "the port, or 0 for a free port; default: 4010" },
    host: { value: "<host>", help: "the address to listen on; default: 127.0.0.1" },
    ...toOption(
      "configure this endpoint for all topics; adds topic=<topic> to the URL of each topic",
      "STAYHOOK_TARGET",
    ),
    seed: {
      value: "<integer>",
      help: "the seed of an earlier run, to get the same codes, ids and order again; default: random",
    },
    state: {
      value: "<file>",
      help: "keep bookings, listings and the webhook configuration in this file, and continue with them after a restart",
    },
    accounts: {
      value: "<ids>",
      help: "make these accounts, such as a17,b2, each with records and a token of its own; with --to, the URL of each account has account=<id>",
    },
    demo: { help: "begin with a few listings and bookings, unless --state has some already" },
    ...deliveryOptions,
  },
  run: async (invocation) => {
    const { io, text, flag } = invocation;
    const terminal = terminalOf(io);
    const out = new Output(terminal.io, invocation.out.json);
    const shell = { terminal, out };
    const accessToken = io.env.STAYHOOK_ACCESS_TOKEN || undefined;
    const to = toGiven(invocation, "STAYHOOK_TARGET");
    const port = integerOf(invocation, "port") ?? 4010;
    const file = text("state");
    if (file !== undefined && text("seed") !== undefined)
      throw new UsageError(
        "--seed cannot be combined with --state: a second run would repeat the event ids.",
      );
    const options = {
      seed: integerOf(invocation, "seed"),
      accessToken,
      accounts: text("accounts")
        ?.split(",")
        .map((id) => id.trim()),
      delivery: deliveryOf(invocation),
      observe: (event: SandboxObservation) => tell(out, event),
    };
    const made = createSandboxWith(options, file === undefined ? undefined : fileKeeper(file));
    if (flag("demo")) for (const account of accountsOf(made)) await addDemo(account);
    await listeningOn(port, made.listen({ port, host: text("host") }));
    try {
      announce(out, made, accessToken !== undefined);
      if (to !== undefined && to !== "-") configure(made, to);
      await runShell(shell, made, to === "-" ? (url) => configure(made, url) : undefined);
    } finally {
      await made.close();
    }
  },
};

/** Returns the accounts. A sandbox without accounts is its own account. */
const accountsOf = (made: Sandbox): readonly SandboxAccount[] =>
  made.accounts.length === 0 ? [made] : made.accounts.map((id) => made.account(id));

/** Makes a few records without notifications, so that the sandbox's page shows each status. */
async function addDemo({ bookings, listings }: SandboxAccount): Promise<void> {
  if (bookings.list().length + listings.list().length > 0) return;
  for (const status of ["Published", "Published", "InReview", "Hidden"]) await listings.create({ status });
  for (const status of ["Request", "Request", "Confirmed", "Confirmed", "Declined", "Cancelled"])
    await bookings.create({ status });
}

/** Configures the endpoint of each account. The URL of an account names the account. @throws UsageError */
function configure(made: ConfigurableSandbox, to: string): void {
  const problem = problemWithShared(to, new URL(made.url));
  if (problem !== undefined) throw new UsageError(`The URL of --to ${problem}.`);
  made.configure((account) => sharedEndpoints(addAccount(to, account)));
}
