import { AuthenticationError } from "../../client/errors.ts";
import { createReconciler, type Incomplete, type ReconcileObservation } from "../../reconcile/index.ts";
import { createWebhookHandler } from "../../webhooks/handler.ts";
import type { Command, Invocation } from "../command.ts";
import { exitCodes } from "../exit-code.ts";
import { storeOptions, withStore } from "../open-store.ts";
import { integerOf } from "../options.ts";
import { printable } from "../output.ts";

const exitCodeOf: Readonly<Record<Incomplete, number>> = {
  locked: exitCodes.failed,
  unreachable: exitCodes.unreachable,
  aborted: exitCodes.interrupted,
};

const described: Readonly<Record<Incomplete, string>> = {
  locked: "Another pass is running. This one did nothing.",
  unreachable: "The platform is out of reach. The next pass continues where this one stopped.",
  aborted: "Interrupted. The next pass continues where this one stopped.",
};

type Alarm = Extract<ReconcileObservation, { readonly kind: "drift" | "missed" }>;
type Changes = Extract<ReconcileObservation, { readonly kind: "changed" }>["changes"];

/** The line to print for an observation; `undefined` for none. */
function lineOf(event: ReconcileObservation): string | undefined {
  switch (event.kind) {
    case "drift":
      return `webhook configuration: ${event.isActive ? `unexpected URL for ${event.topics.join(" and ")}` : "delivery is off or not configured"}`;
    case "missed":
      return `${event.ref}: missed, no notification of this change arrived`;
    case "changed":
      return `${event.ref}: ${describeChanges(event.changes) || "could not be read"}`;
    case "vanished":
      return `${event.ref}: no longer in the list`;
    case "failed":
      return `${event.ref}: ${event.error instanceof Error ? event.error.message : event.error}`;
    default:
      return undefined;
  }
}

const describeChanges = (changes: Changes): string =>
  Object.entries(changes)
    .map(([field, change]) => `${field} ${change?.from ?? "unknown"} -> ${change?.to ?? "unknown"}`)
    .join(", ");

/** Prints the observations of a pass as they come, and its progress on a terminal. */
function createReporter({ out }: Invocation) {
  let checked = 0;
  let refused = false;
  let wipe = () => {};
  const alarms: Alarm[] = [];
  return {
    observe(event: ReconcileObservation): void {
      if (event.kind === "failed") refused ||= event.error instanceof AuthenticationError;
      if (event.kind === "drift" || event.kind === "missed") alarms.push(event);
      if (event.kind === "checked") wipe = out.progress(`${++checked} checked`);
      const line = out.json ? undefined : lineOf(event);
      if (line === undefined) return;
      wipe();
      out.note(printable(line));
    },
    alarms,
    /** Whether the platform refused the access token. */
    isRefused: () => refused,
    end: () => wipe(),
  };
}

export const reconcile: Command = {
  name: "reconcile",
  summary: "find changes that no notification brought, in one pass over listings and known bookings",
  description: `Adds an event to the store for each change. The processes of the app handle the events. This command runs no
callbacks. Also reports missed notifications, and a webhook configuration that is off. Ends with 1 if a record could
not be read or another pass is running.`,
  examples: [
    "stayhook reconcile --store events.db",
    "stayhook reconcile --store events.db --watch HX3K9 --json",
  ],
  asksPlatform: true,
  options: {
    watch: {
      type: "string",
      multiple: true,
      value: "<code>",
      help: "also read this booking, in this and all later passes",
    },
    "no-baseline": {
      type: "boolean",
      help: "add events for unknown listings on the first pass",
    },
    concurrency: { type: "string", value: "<n>", help: "records that are read at once; default: 4" },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { out, io, flag, texts } = invocation;
    const concurrency = integerOf(invocation, "concurrency", [1, 999]);
    const client = invocation.client();
    return withStore(
      invocation,
      async (store) => {
        // The reporter prints what the handler and the reconciler would log.
        const logger = () => {};
        // The handler serves no requests here.
        const options = { client, store, on: {}, verify: false, autoStart: false, logger } as const;
        const webhooks = createWebhookHandler(options);
        const reporter = createReporter(invocation);
        const reconciler = createReconciler(webhooks, {
          concurrency,
          baseline: !flag("no-baseline"),
          observe: reporter.observe,
        });
        try {
          await reconciler.watch(texts("watch"));
          const pass = await reconciler.run({ signal: io.signal });
          const report = { ...pass, duration: Math.round(pass.duration) };
          reporter.end();
          const { incomplete } = report;
          const { alarms } = reporter;
          out.result(alarms.length > 0 ? { ...report, alarms } : report, () =>
            out.fields(Object.entries({ ...report, duration: `${report.duration} ms` })),
          );
          if (reporter.isRefused()) {
            out.warn("The platform refuses the access token. Check STAYHOOK_ACCESS_TOKEN.");
            return exitCodes.refused;
          }
          if (incomplete) {
            out.warn(described[incomplete]);
            return exitCodeOf[incomplete];
          }
          return report.failed > 0 ? exitCodes.failed : exitCodes.done;
        } finally {
          reporter.end();
          await reconciler.close();
          await webhooks.close();
        }
      },
      { handlesSignal: true },
    );
  },
};
