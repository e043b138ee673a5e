// What the circuit breaker knows about a lane, an account, or everything.

import type { ClaimedEvent } from "../stores/stored-event.ts";
import type { Lane, LaneKind, Pause, PauseScope } from "./work.ts";

/** The shortest wait of an event whose lane is shut, ms. */
const SHORTEST_WAIT = 250;
/** The longest wait of the event that finds out whether its lane is still shut, ms, unless the platform asks for more. */
const LONGEST_LOOKOUT_WAIT = 10_000;
/** The longest wait of an event whose lane is shut, ms, unless the platform asks for more. */
const LONGEST_WAIT = 15 * 60_000;
/** How much later than others an event comes back for each time that it was the try, ms, up to a number of tries. */
const AFTER_EACH_TRY = 20;
const MOST_TRIES = 50;
/** Another event becomes the lookout if the old one has not come back this long after its time, ms. */
const LOOKOUT_MISSING = 60_000;

interface OpenState extends Pause {
  /** When half-open tries may begin, on the monotonic clock. */
  readonly until: number;
  /** Whether `until` comes from `Retry-After`. */
  readonly asked: boolean;
}

/** The circuit breaker's data about one read. The breaker ignores all but the first result of the read. */
export interface TrackedRead {
  readonly record: string;
  readonly lane: Lane;
  readonly epoch: number;
  /** How long the event has been out of reach, ms. */
  readonly outageFor: number;
  reported: boolean;
}

/** One part of the platform, which can be out of reach by itself. */
export class Circuit {
  /** It is `undefined` for everything, and in an app that has one account. */
  readonly account: string | undefined;
  /** It is `undefined` for everything, and for a whole account. */
  readonly kind: LaneKind | undefined;
  open: OpenState | undefined;
  /** A reading with a lower `epoch` began before the last pause. */
  epoch = 0;
  /** The number of pauses since the last answer. */
  pauses = 0;
  /** The records that were out of reach since the last answer. */
  readonly unreached = new Set<string>();
  /** The records in `unreached` whose event had no earlier outage. */
  readonly newlyUnreached = new Set<string>();
  /** Until when the answer of a witness holds, on the monotonic clock. */
  upUntil = Number.NEGATIVE_INFINITY;
  /** The witnesses are being asked whether this is an outage. */
  judging: { readonly ended: Promise<void>; readonly end: () => void } | undefined;
  /** The witnesses are being asked whether the pause is over. */
  asking = false;
  /** There is no witness, so that an attempt must try. */
  alone = false;
  /** Whether attempts are the tries since the last answer, because there was no witness. */
  triesAttempts = false;
  /** The attempt that a half-open breaker without witnesses has let through. */
  trying: TrackedRead | undefined;
  /** Since when no read begins, on the monotonic clock. */
  shutAt: number | undefined;
  /** Whether events were put back because of this circuit. They must be made due when it closes. */
  holds = false;
  #lookout: { readonly eventId: string; readonly wasTried: boolean; readonly dueAt: number } | undefined;

  constructor({ account, kind }: Lane) {
    this.account = account;
    this.kind = kind;
  }

  get scope(): PauseScope {
    return this.kind ?? (this.account === undefined ? "everything" : "account");
  }

  /** Whether no read begins now: this is an outage, or it is not clear yet. */
  get isShut(): boolean {
    return this.open !== undefined || this.judging !== undefined;
  }

  /** Whether the circuit has nothing to remember. */
  isIdleAt(now: number): boolean {
    return !this.isShut && !this.asking && this.unreached.size === 0 && now >= this.upUntil;
  }

  isBefore({ epoch }: TrackedRead): boolean {
    return this.open !== undefined && epoch < this.epoch;
  }

  waitAt(now: number): number {
    return this.open === undefined ? 0 : Math.max(0, this.open.until - now);
  }

  /** Whether an event comes after others as a try, because it was tried before. */
  comesLater({ outages }: Pick<ClaimedEvent, "outages">, now: number): boolean {
    return this.open !== undefined && this.triesAttempts && now < this.open.until + laterBy(outages);
  }

  forget(): void {
    this.unreached.clear();
    this.newlyUnreached.clear();
  }

  /**
   * Returns for how long an event is put back, ms. The waits grow with the pause, so that a lane that is shut for days does
   * not write its events again each minute. When the circuit closes, the queue makes them due. One event, the lookout, comes
   * back soon: if this process ends meanwhile, another one learns from it that the lane is open again. If attempts are
   * the tries, all events come back for the next try.
   */
  putBack({ eventId, outages }: Pick<ClaimedEvent, "eventId" | "outages">, now: number): number {
    this.holds = true;
    const least = Math.max(this.waitAt(now), SHORTEST_WAIT);
    if (this.triesAttempts) return least + laterBy(outages);
    const age = now - (this.shutAt ?? now);
    const lookout = this.#lookout;
    const isMissing = lookout === undefined || now > lookout.dueAt + LOOKOUT_MISSING;
    // The event was out of reach before, which tells another process that others may wait.
    const wasTried = outages > 0;
    if (!isMissing && lookout.eventId !== eventId && (lookout.wasTried || !wasTried))
      return Math.max(least, Math.min(age, LONGEST_WAIT));
    const wait = Math.max(least, Math.min(age / 2, LONGEST_LOOKOUT_WAIT));
    this.#lookout = { eventId, wasTried, dueAt: now + wait };
    return wait;
  }
}

/** How much later than others an event is tried that was tried in vain, ms. */
function laterBy(outages: number): number {
  return Math.min(outages, MOST_TRIES) * AFTER_EACH_TRY;
}
