// Runs pairs and triples of calls in every order of their statements.
import type { ClaimedEvent } from "../../../src/stores/stored-event.ts";
import { randomOf } from "../../system/random.ts";
import { begin, type Call, calls, type Scene, SHORT, type State, states } from "./calls.ts";
import { type Bounds, explore, type Play } from "./explore.ts";
import { allowed, invariants, look, resultOf } from "./judge.ts";
import { openPlace, type Place, type StoreName } from "./places.ts";
import { Session } from "./session.ts";

/** One line of the table: calls that begin at once in a state. */
export interface Line {
  readonly state: State;
  readonly calls: readonly Call[];
}

export interface Failure {
  readonly line: string;
  readonly schedule: string;
  readonly steps: readonly string[];
  readonly wrong: string;
}

export interface Table {
  readonly lines: number;
  readonly orders: number;
  readonly capped: number;
  readonly failures: readonly Failure[];
}

export function nameOf({ state, calls }: Line): string {
  return `${calls.map(({ name }) => name).join(" | ")} (${state.name})`;
}

/** All pairs of calls, in each state in which they mean something. */
export function pairs(name: StoreName): Line[] {
  return states.flatMap((state) => {
    const fitting = fittingCalls(name, state);
    return fitting.flatMap((one, index) =>
      fitting
        .slice(index)
        .filter((other) => state.one === undefined || state.one.test(one.name) || state.one.test(other.name))
        .map((other) => ({ state, calls: [one, other] })),
    );
  });
}

/** A claim, and any two other calls. */
export function triples(name: StoreName): Line[] {
  return states.slice(0, 4).flatMap((state) => {
    const fitting = fittingCalls(name, state);
    const claims = fitting.filter(({ name }) => name.startsWith("claim"));
    return claims.flatMap((claim) =>
      fitting.flatMap((one, index) =>
        fitting.slice(index).map((other) => ({ state, calls: [claim, one, other] })),
      ),
    );
  });
}

/** Returns some of the lines, in their order. The same seed chooses the same lines. */
export function sampleOf(lines: readonly Line[], count: number, seed: number): Line[] {
  const random = randomOf(seed);
  const chances = new Map(lines.map((line) => [line, random.below(2 ** 30)]));
  const chosen = new Set(lines.toSorted((a, b) => chances.get(a)! - chances.get(b)!).slice(0, count));
  return lines.filter((line) => chosen.has(line));
}

function fittingCalls(name: StoreName, { lease, only }: State): Call[] {
  const isServer = name === "PostgreSQL" || name === "MariaDB";
  return calls.filter(
    (call) =>
      (lease !== undefined || !call.needsLease) &&
      (isServer || !call.needsWrites) &&
      // SQLite answers in the process that asks, so no answer gets lost.
      (name !== "SQLite" || call.loses === undefined) &&
      (only === undefined || only.test(call.name)),
  );
}

export interface TableOptions {
  /** The directory with the sources of stayhook to test. */
  readonly source: string;
  /** How many databases share the lines. */
  readonly workers: number;
  readonly bounds: Bounds;
  /** Runs only this order of each line: the number of a session for each step. */
  readonly schedule?: string | undefined;
}

/** Runs the lines. Returns `undefined` if the store's server does not run. */
export async function runTable(
  name: StoreName,
  lines: readonly Line[],
  { source, workers, bounds, schedule }: TableOptions,
): Promise<Table | undefined> {
  let [orders, capped] = [0, 0];
  const failures: Failure[] = [];
  const left = lines.values();
  const work = async (place: Place): Promise<void> => {
    for (const line of left) {
      const results = await allowed(line.calls, line.state);
      const start = await beginning(place, line.state);
      const explored = await explore(async () => play(place, line, results, await start()), bounds, schedule);
      orders += explored.orders;
      if (explored.isCapped) capped += 1;
      failures.push(...explored.failures.map((failure) => ({ line: nameOf(line), ...failure })));
    }
  };
  const places = await Promise.all(Array.from({ length: workers }, () => openPlace(name, source)));
  const opened = places.filter((place) => place !== undefined);
  if (opened.length === 0) return undefined;
  try {
    await Promise.all(opened.map(work));
  } finally {
    for (const place of opened) await place.remove();
  }
  return { lines: lines.length, orders, capped, failures };
}

/** Returns a function that puts the place into the state. */
async function beginning(place: Place, state: State): Promise<() => Promise<ClaimedEvent | undefined>> {
  const anew = async () => {
    await place.empty();
    return begin(place.plain, state);
  };
  // A lease that ends during the order begins with it.
  if (place.save === undefined || state.lease === SHORT) return anew;
  const held = await anew();
  await place.save();
  return async () => {
    await place.load!();
    return held;
  };
}

async function play(
  place: Place,
  line: Line,
  results: ReadonlySet<string>,
  held: ClaimedEvent | undefined,
): Promise<Play> {
  const { plain, handles, write } = place;
  const sessions: Session[] = [];
  const own: Session[] = [];
  for (const [index, call] of line.calls.entries()) {
    const handle = handles[index]!;
    // A store that has lost a claim would give it back in a later order.
    if (call.loses !== undefined) await handle.reopen();
    const onLate = (late: () => Promise<void>): void => {
      const session = new Session("late");
      session.start(() => session.gate("the late statement", late));
      sessions.push(session);
    };
    const lost = call.loses && { at: place.claims, how: call.loses };
    const session = new Session(String.fromCharCode(65 + index), lost, onLate);
    handle.session = session;
    own.push(session);
    const scene: Scene = {
      ...{ store: handle.store, held, write, memo: {} },
      gate: (name, run) => session.gate(name, run),
    };
    session.start(() => call.run(scene));
  }
  sessions.unshift(...own);
  return {
    sessions,
    isWaiting: async (session) => {
      const index = own.indexOf(session);
      return index < 0 ? lateIsWaiting(handles) : handles[index]!.isWaiting();
    },
    async judge() {
      for (const handle of handles) handle.session = undefined;
      for (const [index, call] of line.calls.entries())
        if (call.loses !== undefined) await handles[index]!.store.nextDue();
      const answers = own.map(({ answer }) => answer);
      const [left, writes] = await Promise.all([look(plain), place.written()]);
      const result = resultOf(answers, left, writes);
      const broken = await invariants(place);
      if (broken !== undefined) return `${broken}. Result: ${result}`;
      return results.has(result) ? undefined : `no order of the whole calls gives ${result}`;
    },
  };
}

async function lateIsWaiting(handles: Place["handles"]): Promise<boolean> {
  for (const handle of handles) if (await handle.isWaiting()) return true;
  return false;
}

/** Shows a failure as a list of steps. */
export function shown({ line, schedule, steps, wrong }: Failure, name: StoreName): string {
  return [
    `${name}: ${line}`,
    ...steps.map((step, index) => `  ${index + 1}. ${step}`),
    `  -> ${wrong}`,
    `  again: node test/stores/orders/main.ts --store ${name} --line "${line}" --schedule ${schedule}`,
  ].join("\n");
}
