import { Log } from "../logger.ts";
import type { Booking, Listing } from "../models/records.ts";
import { Queue } from "../queue/queue.ts";
import { defaultBackoff, safeBackoff } from "../queue/retries.ts";
import type { QueueObservation, Work } from "../queue/work.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { IntakeStore } from "../stores/forward.ts";
import { SilenceMonitor } from "./monitoring.ts";
import { logTrouble, type Observation, SafeTelemetry, safeObserve } from "./observability.ts";
import { checkOptions, type WebhookHandlerOptions } from "./options.ts";
import { createWork } from "./processing/handle-event.ts";
import { RecentAnswers, type SnapshotOf, snapshots } from "./processing/record.ts";
import { Backlog, createReceiver, type Receiver } from "./receiving/receive.ts";
import { type Verify, weaknessOf } from "./receiving/verify.ts";

/** The parts that a handler is made of. */
export interface Parts<Tx> {
  readonly numbers: ReturnType<typeof checkOptions>;
  readonly log: Log;
  readonly observe: (event: Observation) => void;
  readonly snapshotOf: SnapshotOf;
  /** `store` and `queue` are `undefined` if `forwardTo` passes the events to a queue of the user. */
  readonly store: EventStore<Tx> | undefined;
  readonly queue: Queue<Tx> | undefined;
  readonly receiver: Receiver;
  readonly silence: SilenceMonitor;
  readonly telemetry: SafeTelemetry;
  /** Handles one event without a store, for `webhooks.process()`. */
  readonly work: Work<Tx>;
  readonly state: { closed: boolean; lastReceivedAt: Date | undefined };
}

/** @throws InvalidArgumentError naming each option that is wrong */
export function assemble<B extends Booking, L extends Listing, Tx>(
  options: WebhookHandlerOptions<B, L, Tx>,
): Parts<Tx> {
  const numbers = checkOptions(options);
  const { client, on, skipUnchanged = false, track, silentAfter = numbers.silentAfter } = options;
  const log = new Log(options.logger);
  warnOfVerify(options.verify, log);
  const telemetry = new SafeTelemetry(options.telemetry, log);
  const tell = safeObserve(options.observe, log);
  const observe = (event: Observation): void => {
    tell(event);
    telemetry.observe(event);
  };
  const snapshotOf = snapshots(track);
  const store = isIntake(options.store) ? undefined : options.store;
  const common = { client, on, skipUnchanged, snapshotOf };
  if (store) telemetry.watch(store);
  const state: Parts<Tx>["state"] = { closed: false, lastReceivedAt: undefined };
  const base = {
    numbers,
    log,
    observe,
    telemetry,
    snapshotOf,
    store,
    state,
  };
  return {
    ...base,
    work: createWork({ ...common, transactional: false }),
    queue: store && queueOf(options, store, base),
    receiver: createReceiver({
      ...numbers,
      verify: options.verify || undefined,
      topicFrom: options.topicFrom,
      answerHealthChecks: options.answerHealthChecks,
      closing: () => state.closed,
      backlog: store && new Backlog(() => store.counts(), numbers.maxBacklog),
      isKnown: store && (async (eventId) => (await store.get(eventId)) !== undefined),
      add: (event) => telemetry.add(event, (traced) => options.store.add(traced)),
      observe,
      log,
    }),
    silence: new SilenceMonitor({
      silentAfter,
      lastReceivedAt: async () => (store ? store.lastReceivedAt() : state.lastReceivedAt),
      tell: (event) => {
        logTrouble(event, log);
        observe(event);
      },
    }),
  };
}

function warnOfVerify(verify: Verify | false | undefined, log: Log): void {
  if (verify === undefined)
    log.warn(
      "the handler has no `verify` option, so anyone who knows its URL can send notifications. " +
        "Set `verify: sharedSecret(...)`, or `verify: false` if a proxy checks the requests",
    );
  const weakness = verify && weaknessOf(verify);
  if (weakness) log.warn(weakness);
}

function queueOf<B extends Booking, L extends Listing, Tx>(
  options: WebhookHandlerOptions<B, L, Tx>,
  store: EventStore<Tx>,
  {
    numbers,
    log,
    observe,
    telemetry,
    snapshotOf,
  }: Pick<Parts<Tx>, "numbers" | "log" | "observe" | "telemetry" | "snapshotOf">,
): Queue<Tx> {
  const { client, on, skipUnchanged = false, recheckAfter = 60_000 } = options;
  const recent = new RecentAnswers();
  const transactional = store.transactional === true;
  const queue = new Queue<Tx>({
    store,
    work: createWork({
      client,
      on,
      skipUnchanged,
      snapshotOf,
      transactional,
      queued: { recent, recheckAfter },
    }),
    policy: { ...numbers, backoff: safeBackoff(options.backoff ?? defaultBackoff, defaultBackoff) },
    observe: (event: QueueObservation) => {
      if (event.kind === "failed" || event.kind === "parked") recent.drop(event.ref);
      logTrouble(event, log);
      observe(event);
    },
    logger: log,
    worker: workerName(),
    process: telemetry.process,
  });
  return queue;
}

function isIntake<Tx>(store: EventStore<Tx> | IntakeStore): store is IntakeStore {
  return (store as Partial<IntakeStore>).intakeOnly === true;
}

interface Process {
  readonly pid?: number;
  readonly getBuiltinModule?: (id: "node:os") => { hostname(): string } | undefined;
}

/** Host and pid of this process, such as `web-1:4711`, for the history of events. */
function workerName(): string {
  const { process, Deno } = globalThis as { readonly process?: Process; readonly Deno?: unknown };
  // Deno would ask the user for permission to read the host name.
  const host = Deno ? undefined : hostname(process);
  return `${host ?? "unknown"}:${process?.pid ?? 0}`;
}

function hostname(process: Process | undefined): string | undefined {
  try {
    return process?.getBuiltinModule?.("node:os")?.hostname();
  } catch {
    return undefined;
  }
}
