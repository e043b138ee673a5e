import { AuthenticationError } from "../../client/errors.ts";
import { createReconciler, type Incomplete, type ReconcileObservation } from "../../reconcile/index.ts";
import { createWebhookHandler } from "../../webhooks/handler.ts";
import type { Command, Invocation } from "../command.ts";
import { exitCodes, UsageError } from "../exit-code.ts";
import { storeOptions, withStore } from "../open-store.ts";
import { printable } from "../output.ts";

const exitCodeOf: Readonly<Record<Incomplete, number>> = {
  locked: exitCodes.failed,
  unreachable: exitCodes.unreachable,
  aborted: exitCodes.interrupted,
};

const described: Readonly<Record<Incomplete, string>> = {
  locked: "another pass is under way: nothing was done",
  unreachable: "the platform is out of reach: the next pass goes on where this one stopped",
  aborted: "interrupted: the next pass goes on where this one stopped",
};

function concurrencyOf({ text }: Invocation): number | undefined {
  const given = text("concurrency");
  if (given !== undefined && !/^[1-9]\d{0,2}$/.test(given))
    throw new UsageError("--concurrency must be an integer from 1 to 999");
  return given === undefined ? undefined : Number(given);
}

/** Prints the changes and failures of a pass as they come, and its progress on a terminal. */
function teller({ out }: Invocation): {
  observe(event: ReconcileObservation): void;
  /** Whether the platform refused the access token. */
  refused(): boolean;
  end(): void;
} {
  let checked = 0;
  let refused = false;
  let wipe = () => {};
  const tell = (text: string): void => {
    wipe();
    out.note(text);
  };
  return {
    observe(event) {
      if (event.kind === "failed") refused ||= event.error instanceof AuthenticationError;
      if (event.kind === "checked") wipe = out.progress(`${++checked} checked`);
      if (out.json) return;
      if (event.kind === "changed")
        tell(
          `${printable(event.ref)}: ${printable(event.previousStatus ?? "new")} -> ${printable(event.status)}`,
        );
      if (event.kind === "vanished") tell(`${printable(event.ref)}: no longer in the list`);
      if (event.kind === "failed")
        tell(
          `${printable(event.ref)}: ${printable(event.error instanceof Error ? event.error.message : event.error)}`,
        );
    },
    refused: () => refused,
    end: () => wipe(),
  };
}

export const reconcile: Command = {
  name: "reconcile",
  summary: "find changes that no notification brought, in one pass over listings and known bookings",
  description: `Adds an event to the store for each change. The processes of the app handle the events; this command runs no
callbacks. Ends with 1 where something could not be read or another pass is under way, with 3 where the platform
refuses the access token, and with 5 where the platform is out of reach.`,
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
      help: "read this booking in this pass and all later ones",
    },
    "no-baseline": {
      type: "boolean",
      help: "on the first pass, add events for unknown listings instead of learning them",
    },
    concurrency: { type: "string", value: "<n>", help: "how many records are read at once; default: 4" },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { out, io, flag, texts } = invocation;
    const concurrency = concurrencyOf(invocation);
    const client = invocation.client();
    return withStore(
      invocation,
      async (store) => {
        // `told` and the report say what the handler and the reconciler would log.
        const logger = () => {};
        const webhooks = createWebhookHandler({
          client,
          store,
          on: {},
          verify: false,
          autoStart: false,
          logger,
        });
        const told = teller(invocation);
        const reconciler = createReconciler(webhooks, {
          concurrency,
          baseline: !flag("no-baseline"),
          observe: told.observe,
        });
        try {
          await reconciler.watch(texts("watch"));
          const pass = await reconciler.run({ signal: io.signal });
          const report = { ...pass, duration: Math.round(pass.duration) };
          told.end();
          const { incomplete } = report;
          out.result(report, () =>
            out.fields(Object.entries({ ...report, duration: `${report.duration} ms` })),
          );
          if (told.refused()) {
            out.warn("the platform refuses the access token");
            return exitCodes.refused;
          }
          if (incomplete) {
            out.warn(described[incomplete]);
            return exitCodeOf[incomplete];
          }
          return report.failed > 0 ? exitCodes.failed : exitCodes.done;
        } finally {
          told.end();
          await reconciler.close();
          await webhooks.close();
        }
      },
      { seesToSignal: true },
    );
  },
};
