import type { StayhookClient } from "../../client/client.ts";
import { AuthenticationError } from "../../client/client-errors.ts";
import { duration } from "../../console/html.ts";
import { describeChanges } from "../../console/timeline.ts";
import { withoutWords } from "../../error-text.ts";
import type { Incomplete } from "../../reconcile/options.ts";
import {
  createReconciler,
  type ReconcileObservation,
  type ReconcileReport,
} from "../../reconcile/reconciler.ts";
import type { EventStore } from "../../stores/event-store.ts";
import { createWebhookHandler } from "../../webhooks/handler.ts";
import { accountOptions, type Tokens, tokensGiven } from "../account-tokens.ts";
import { accountGiven, integerOf } from "../arguments.ts";
import { type Command, exitCodes, type Invocation, ofBooking, UsageError } from "../command.ts";
import { storeOptions, withStore } from "../open-store.ts";
import { type Output, printable } from "../output.ts";

/** The exit code and the warning for each reason that makes a pass incomplete. */
const incompletePasses: Readonly<Record<Incomplete, readonly [code: number, warning: string]>> = {
  locked: [exitCodes.failed, "Another pass is running on this store, so this pass stopped. Try again later."],
  unreachable: [
    exitCodes.unreachable,
    "The platform is out of reach. The next pass continues where this pass stopped.",
  ],
  aborted: [
    exitCodes.interrupted,
    "The pass was interrupted. The next pass continues where this pass stopped.",
  ],
};

type ReconcileAlarm = Extract<ReconcileObservation, { readonly kind: "drift" | "missed" }>;

/** Returns the line to print for an observation, or `undefined` if nothing is printed. */
function lineOf(event: ReconcileObservation): string | undefined {
  switch (event.kind) {
    case "drift":
      return `${event.account === undefined ? "" : `${event.account}/`}webhook configuration: ${event.isActive ? `unexpected URL for ${event.topics.join(" and ")}` : "delivery is off or not configured"}`;
    case "missed":
      return `${event.ref}: changed, but no notification of the change arrived`;
    case "changed":
      return `${event.ref}: ${describeChanges(event.changes) || "could not be read"}`;
    case "gone":
      return `${event.ref}: the platform no longer returns it`;
    case "failed": {
      // A cron job keeps these lines, as a log does.
      const error = withoutWords(event.error);
      return `${event.ref}: ${error instanceof Error ? error.message : error}`;
    }
    default:
      return undefined;
  }
}

export const reconcile: Command = {
  description: `Adds an event to the store for each change. The processes of the app handle the events. This command runs no
callbacks. Also reports missed notifications, and a webhook configuration that is off. The exit code is 1 if a
record could not be read, or if another pass is running.`,
  examples: [
    "stayhook reconcile --store events.db",
    "stayhook reconcile --store events.db --watch HX3K9 --json",
    "stayhook reconcile --store events.db --account a17",
    "stayhook reconcile --store events.db --again",
  ],
  asksPlatform: true,
  options: {
    watch: {
      multiple: true,
      value: "<code>",
      help: "also read this booking, now and in all later passes",
    },
    again: {
      help: "add an event for each known record, changed or not, to fill a new table; continues an interrupted run",
    },
    "no-baseline": {
      help: "in the first pass, add an event for each listing that is not in the store; default: only save its snapshot",
    },
    concurrency: { value: "<n>", help: "how many records, and accounts, to read at once; default: 4" },
    ...accountOptions,
    ...storeOptions,
  },
  run: async (invocation) => {
    const concurrency = integerOf(invocation, "concurrency", 1, 999);
    const tokens = tokensGiven(invocation);
    const client = await invocation.client(tokens);
    return withStore(invocation, (store) => makePass(invocation, { store, client, concurrency, tokens }), {
      handlesSignal: true,
    });
  },
};

interface PassOptions {
  readonly client: StayhookClient;
  readonly store: EventStore<unknown>;
  readonly concurrency: number | undefined;
  /** The accounts. It is `undefined` if there is one account. */
  readonly tokens: Tokens | undefined;
}

/** Makes one pass, prints its observations as they come, and resolves to the exit code. */
async function makePass(invocation: Invocation, options: PassOptions): Promise<number> {
  const { out, io, flag, texts } = invocation;
  const { client, store, concurrency, tokens } = options;
  const account = accountGiven(invocation);
  if (texts("watch").length > 0 && tokens && account === undefined)
    throw new UsageError("--watch needs --account, because a booking belongs to one account.");
  const printer = new Printer(out, tokens?.size);
  // The handler serves no requests. It logs nothing, because the printer prints the observations.
  const webhooks = createWebhookHandler({
    client,
    store,
    on: {},
    verify: false,
    autoStart: false,
    logger: () => {},
    ...(tokens && { accountFrom: () => undefined }),
  });
  const reconciler = createReconciler(webhooks, {
    concurrency,
    baseline: !flag("no-baseline"),
    observe: (event) => printer.observe(event),
    ...(tokens && { accounts: () => tokens.keys() }),
  });
  try {
    for (const code of texts("watch"))
      await ofBooking(
        code,
        reconciler.watch(code, { account }),
        ", so no pass was made. Correct --watch, and run it again",
      );
    return printer.end(await reconciler.run({ signal: io.signal, account, again: flag("again") }));
  } finally {
    printer.wipe();
    await reconciler.close();
    await webhooks.close();
  }
}

/** Prints the observations of a pass, and its report. */
class Printer {
  /** Removes the line of the progress. */
  wipe = () => {};
  readonly #out: Output;
  readonly #accounts: number | undefined;
  readonly #alarms: ReconcileAlarm[] = [];
  #checked = 0;
  #isRefused = false;

  /** @param accounts - the number of accounts. It is `undefined` if there is one account */
  constructor(out: Output, accounts: number | undefined) {
    this.#out = out;
    this.#accounts = accounts;
  }

  observe(event: ReconcileObservation): void {
    const out = this.#out;
    if (event.kind === "failed") this.#isRefused ||= event.error instanceof AuthenticationError;
    if (event.kind === "drift" || event.kind === "missed") this.#alarms.push(event);
    if (event.kind === "checked") this.wipe = out.progress(`records checked: ${++this.#checked}`);
    const line = out.json ? undefined : lineOf(event);
    if (line === undefined) return;
    this.wipe();
    out.note(printable(line));
  }

  /** Prints the report and the reason why the pass is not whole, and returns the exit code. */
  end(pass: ReconcileReport): number {
    const out = this.#out;
    this.wipe();
    const report = { ...pass, duration: Math.round(pass.duration) };
    out.result(this.#alarms.length > 0 ? { ...report, alarms: this.#alarms } : report, () =>
      out.fields(Object.entries(fieldsOf(report, out))),
    );
    const [code, warning] = this.#conclusion(pass);
    if (warning !== undefined) out.warn(warning);
    return code;
  }

  #conclusion({ accounts, incomplete, failed }: ReconcileReport): readonly [code: number, warning?: string] {
    if (accounts && accounts.failed > 0)
      return [
        exitCodes.failed,
        `${accounts.failed} of ${this.#accounts} accounts could not be read. Their next passes continue.`,
      ];
    if (this.#isRefused)
      return [exitCodes.refused, "The platform refuses the access token. Check STAYHOOK_ACCESS_TOKEN."];
    if (incomplete !== undefined) return incompletePasses[incomplete];
    return [failed > 0 ? exitCodes.failed : exitCodes.done];
  }
}

function fieldsOf({ accounts, ...report }: ReconcileReport, { isTerminal }: Output): Record<string, unknown> {
  const shown = accounts && { accounts: accounts.checked, "accounts that failed": accounts.failed };
  const took = isTerminal ? duration(report.duration) : `${report.duration} ms`;
  return { ...report, ...shown, duration: took };
}
