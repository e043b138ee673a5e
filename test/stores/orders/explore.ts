// Runs sessions in every order of their statements.
import type { Session } from "./session.ts";

export interface Bounds {
  /** How often an order may leave a session that could go on. */
  readonly switches: number;
  /** The maximum number of orders of one pair. */
  readonly orders: number;
}

/** A set of sessions, made anew for each order. */
export interface Play {
  readonly sessions: Session[];
  /** Whether a session that got no answer yet waits for a lock. */
  isWaiting(session: Session): Promise<boolean>;
  /** Judges what the order left behind. Returns what is wrong. */
  judge(): Promise<string | undefined>;
}

export interface Explored {
  readonly orders: number;
  readonly failures: readonly {
    readonly steps: readonly string[];
    readonly schedule: string;
    readonly wrong: string;
  }[];
  readonly isCapped: boolean;
}

const LONGEST_ORDER = 200;
/** How long all sessions may wait for locks and answers, ms. A database's commit may take seconds on a busy disk. */
const LONGEST_WAIT = 30_000;

/** Runs each order of the sessions that `make` returns, depth first. */
export async function explore(make: () => Promise<Play>, bounds: Bounds, only?: string): Promise<Explored> {
  const open: number[][] = [only === undefined ? [] : [...only].map(Number)];
  const failures: { steps: readonly string[]; schedule: string; wrong: string }[] = [];
  let orders = 0;
  while (open.length > 0 && orders < bounds.orders) {
    const prefix = open.pop()!;
    const play = await make();
    const { steps, choices, others } = await runOne(play, prefix, bounds.switches);
    orders += 1;
    if (only === undefined) open.push(...others);
    const wrong = await play.judge();
    if (wrong !== undefined) failures.push({ steps, schedule: choices.join(""), wrong });
  }
  return { orders, failures, isCapped: open.length > 0 };
}

/** Follows `prefix`, and then lets each session go on as long as it can. */
async function runOne({ sessions, isWaiting }: Play, prefix: readonly number[], switches: number) {
  const steps: string[] = [];
  const choices: number[] = [];
  const others: number[][] = [];
  let last = -1;
  let switched = 0;
  const settle = async () => {
    for (const session of sessions) await session.moved(() => isWaiting(session));
  };
  await settle();
  let movedAt = performance.now();
  while (sessions.some(({ hasEnded }) => !hasEnded)) {
    if (steps.length > LONGEST_ORDER || performance.now() - movedAt > LONGEST_WAIT)
      throw new Error(`no end after ${steps.length} steps: ${steps.join(", ")}`);
    const ready = sessions.flatMap(({ isReady }, index) => (isReady ? [index] : []));
    if (ready.length === 0) {
      await new Promise((resolve) => setTimeout(resolve, 1));
      await settle();
      continue;
    }
    const canStay = ready.includes(last);
    const wanted = prefix[choices.length];
    const chosen = wanted !== undefined && ready.includes(wanted) ? wanted : canStay ? last : ready[0]!;
    if (choices.length >= prefix.length && (!canStay || switched < switches))
      for (const other of ready) if (other !== chosen) others.push([...choices, other]);
    if (canStay && chosen !== last) switched += 1;
    choices.push(chosen);
    last = chosen;
    const session = sessions[chosen]!;
    await session.step(() => isWaiting(session));
    movedAt = performance.now();
    const { ran, isReady, hasEnded } = session;
    steps.push(`${session.name}: ${ran.at(-1)}${isReady || hasEnded ? "" : " (waits)"}`);
    await settle();
  }
  return { steps, choices, others };
}
