// Makes the parts of a webhook handler: each of them from those above it.

import { Log } from "../logger.ts";
import type { Booking, Listing } from "../models/records.ts";
import { Queue } from "../queue/queue.ts";
import { patientStore } from "../queue/store-call.ts";
import { declaredIn } from "../stays/declared.ts";
import { StaysEngine } from "../stays/engine.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { AddOptions } from "../stores/store-options.ts";
import type { AddAnswer } from "../stores/store-steps.ts";
import type { NewEvent } from "../stores/stored-event.ts";
import { thingId } from "./own-ids.ts";
import { GoneWitness } from "./processing/gone-witness.ts";
import { createWork } from "./processing/handle-event.ts";
import { lastResortOf } from "./processing/handle-thing.ts";
import { unknownStatuses, unreadableStays } from "./processing/read-warnings.ts";
import { RecentAnswers } from "./processing/record.ts";
import type { QueuedOptions, WorkOptions } from "./processing/record-work.ts";
import { Refusals } from "./processing/refusals.ts";
import { lookerAt } from "./processing/snapshots.ts";
import { zonesOf } from "./processing/time-zone.ts";
import { Receiver } from "./receiving/receive.ts";
import { weaknessesOf } from "./receiving/verify.ts";
import { beginningOf, laneOf } from "./refs.ts";
import { WaitingRequests } from "./request-context.ts";
import { observerOf, SafeTelemetry } from "./safe-telemetry.ts";
import { isIntake, type Settings } from "./settings.ts";
import { StoreCounts } from "./store-counts.ts";
import { logTrouble } from "./trouble.ts";
import { workerName } from "./worker-name.ts";

/** The settings of a handler whose models do not matter. */
export type HandlerSettings<Tx> = Settings<Booking, Listing, Tx>;

export type HandlerParts<Tx> = ReturnType<typeof partsOf<Tx>>;

export function partsOf<Tx>(settings: HandlerSettings<Tx>) {
  const { client, on, holds, track, timeZone, stays, verify, attemptTimeout, giveUpAfter } = settings;
  const hasAccounts = settings.accountFrom !== undefined;
  const log = new Log(settings.logger);
  for (const weakness of weaknessesOf(verify, hasAccounts)) log.warn(weakness);
  const telemetry = new SafeTelemetry(settings.telemetry, log);
  const observe = observerOf(settings, telemetry, log);
  /** `undefined` if `forwardTo` passes the events to a queue of the user. */
  const store = isIntake(settings.store) ? undefined : settings.store;
  const counts = store && new StoreCounts(store);
  // With the other half, an attempt with `stays` still plans, so that a zone that never comes holds no thing up.
  const zoneOf = zonesOf(timeZone, log, attemptTimeout / 2);
  /** What the work of an event needs, with and without a store. */
  const work: WorkOptions<Tx> = {
    ...{ client, on, holds, hasAccounts, log, zoneOf },
    lookAt: lookerAt(track, zoneOf, log, stays !== undefined),
    statusSeen: unknownStatuses(on, log),
    staySeen: unreadableStays(log),
  };
  /** Adds an event to the store, and wakes the queue. */
  const add = async (event: NewEvent, options?: AddOptions): Promise<AddAnswer> => {
    const added = await telemetry.add(event, (traced) => settings.store.add(traced, options));
    if (added === "added") queue?.wake(event);
    return added;
  };
  const gone = store && {
    goneWitness: new GoneWitness(client, store),
    refusals: new Refusals(patientStore(store), add, giveUpAfter),
  };
  const waiting = new WaitingRequests();
  const queue = store && gone && queueOf({ settings, store, work, gone, telemetry, observe, waiting });
  const receiver = new Receiver({
    ...settings,
    ...{ verify: verify || undefined, counts, add, observe, log },
    isKnown: async (eventId) => (await store?.get(eventId)) !== undefined,
  });
  if (counts) telemetry.watch(counts);
  return {
    settings,
    hasAccounts,
    log,
    telemetry,
    observe,
    store,
    counts,
    work,
    add,
    gone,
    waiting,
    queue,
    receiver,
  };
}

interface QueueParts<Tx> {
  readonly settings: HandlerSettings<Tx>;
  readonly store: EventStore<Tx>;
  readonly work: WorkOptions<Tx>;
  readonly gone: Pick<QueuedOptions, "goneWitness" | "refusals">;
  readonly telemetry: SafeTelemetry;
  readonly observe: ReturnType<typeof observerOf>;
  readonly waiting: WaitingRequests;
}

function queueOf<Tx>({
  settings,
  store,
  work: { hasAccounts, log, ...work },
  gone,
  telemetry,
  observe,
  waiting,
}: QueueParts<Tx>): Queue<Tx> {
  const recent = new RecentAnswers();
  const queuedWork: WorkOptions<Tx> = {
    ...{ ...work, hasAccounts, log, store: patientStore(store) },
    queued: { recent, recheckAfter: settings.recheckAfter, limits: settings, ...gone },
    things: engineOf(settings.stays, store, log),
  };
  return new Queue<Tx>({
    ...{ store, laneOf, beginningOf, hasAccounts, policy: settings, logger: log, worker: workerName() },
    work: createWork(queuedWork),
    lastResort: lastResortOf(queuedWork),
    observe: (event) => {
      if (event.kind === "failed" || event.kind === "parked") recent.drop(event.ref);
      logTrouble(event, log);
      observe?.(event);
    },
    contextOf: (eventId) => waiting.contextOf(eventId),
    process: telemetry.process,
  });
}

/** Makes the engine of the option `stays`. */
function engineOf(stays: unknown, store: EventStore<never>, log: Log): StaysEngine | undefined {
  const declared = declaredIn(stays);
  const { get } = patientStore(store);
  return declared && new StaysEngine({ declared, get, rowId: (ref, name) => thingId(ref, name), log });
}
