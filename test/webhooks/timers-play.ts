import fc from "fast-check";
import type { EventStore } from "../../src/stores/event-store.ts";
import type { StoredEvent } from "../../src/stores/stored-event.ts";
import { clientOf, handlerOf, notificationOf, platformOf } from "./support.ts";

/** How a change of a booking is told: by a notification, by two, or not at all. */
type Told = "once" | "twice" | "lost";

type Step =
  | { readonly do: "book"; readonly code: string; readonly in: number; readonly told: Told }
  | { readonly do: "cancel"; readonly code: string; readonly told: Told }
  | { readonly do: "kill" }
  | { readonly do: "wait"; readonly units: number }
  | { readonly do: "stepClock"; readonly units: number };

/** Where a play runs. Times are in units, so that a play takes hours on a fake clock and a second in real time. */
export interface Stage {
  /** ms */
  readonly unit: number;
  /** Sets the clock, if the stage has a clock of its own. */
  readonly stepClock?: (ms: number) => void;
  wait(ms: number): Promise<unknown>;
  /** Opens the store, as a new process does. */
  open(): EventStore<unknown>;
  /** Notes a firing in a write of `event.atomically`, so that it is noted once. */
  write?(tx: unknown, text: string): void | Promise<void>;
  /** The texts that `write` has noted. */
  written(): Promise<readonly string[]>;
}

const CODES = ["A1", "B2"];
const NAMES = ["open", "close"];

export function stepsOf(withClock: boolean, maxLength: number): fc.Arbitrary<readonly Step[]> {
  const code = fc.constantFrom(...CODES);
  const told = fc.constantFrom<Told>("once", "twice", "lost");
  const book = fc.record({
    do: fc.constant("book" as const),
    code,
    in: fc.integer({ min: -2, max: 12 }),
    told,
  });
  const cancel = fc.record({ do: fc.constant("cancel" as const), code, told });
  const wait = fc.record({ do: fc.constant("wait" as const), units: fc.integer({ min: 0, max: 8 }) });
  const kill = fc.constant({ do: "kill" as const });
  const stepClock = fc.record({
    do: fc.constant("stepClock" as const),
    units: fc.integer({ min: -6, max: 6 }),
  });
  const weights: fc.WeightedArbitrary<Step>[] = [
    { weight: 4, arbitrary: book },
    { weight: 2, arbitrary: cancel },
    { weight: 4, arbitrary: wait },
    { weight: 1, arbitrary: kill },
  ];
  if (withClock) weights.push({ weight: 1, arbitrary: stepClock });
  return fc.array(fc.oneof(...weights), { minLength: 1, maxLength });
}

/** A time that a booking had for its timers, and the latest clock reading while it had it. */
interface Period {
  readonly at: number;
  until: number;
  /** Whether the time had come before the clock was set. The timer is due then, also if the clock was set back. */
  hadCome?: boolean;
}

/**
 * Plays bookings that are made, moved and cancelled, while processes die and notifications are lost or come twice.
 *
 * @returns what was wrong: a timer that fired early, that fired although it was cleared before its time, that did not
 * fire, or whose write was not done once
 */
export async function play(stage: Stage, steps: readonly Step[]): Promise<string[]> {
  const { unit } = stage;
  const wrong: string[] = [];
  const platform = platformOf();
  const periods = new Map<string, Period[]>(CODES.map((code) => [code, []]));
  const current = new Map<string, Period | undefined>();
  const claimedAt = new Map<string, number>();
  const fired: string[] = [];
  let calls = 0;
  let alive = start();

  const note = (): void => {
    for (const period of current.values()) if (period) period.until = Math.max(period.until, Date.now());
  };

  function start() {
    let isDead = false;
    const store = new Proxy(stage.open(), {
      get(target, key) {
        const value: unknown = Reflect.get(target, key);
        if (typeof value !== "function") return value;
        if (key === "subscribe") return (wake: () => void) => target.subscribe!(() => isDead || wake());
        return async (...given: unknown[]) => {
          if (isDead) return new Promise(() => {});
          const result: unknown = await value.apply(target, given);
          if (isDead) return new Promise(() => {});
          if (key === "claim")
            for (const { eventId } of result as { eventId: string }[]) claimedAt.set(eventId, Date.now());
          return result;
        };
      },
    });
    type Fired = Parameters<
      NonNullable<NonNullable<Parameters<typeof handlerOf>[0]>["on"]>["booking.timer.x"] & object
    >[0];
    const fire = (event: Fired & { atomically?: (write: (tx: unknown) => void) => void }) => {
      const { booking, timer, eventId } = event;
      const text = `${booking.bookingCode} ${timer.name} ${timer.at.getTime()}`;
      note();
      const at = timer.at.getTime();
      const ofTime = periods.get(booking.bookingCode)!.filter((each) => each.at === at);
      const wasDue = ofTime.some((each) => each.hadCome);
      if (claimedAt.get(eventId)! < at && !wasDue)
        wrong.push(`${text} fired early, at ${claimedAt.get(eventId)}`);
      const isAlive = ofTime.some((each) => each.until >= at);
      if (!isAlive) wrong.push(`${text} fired, but was cleared before its time`);
      calls += 1;
      if (calls % 5 === 0) throw new Error("every fifth call fails");
      fired.push(text);
      if (stage.write) event.atomically!((tx) => stage.write!(tx, text));
    };
    const { webhooks } = handlerOf({
      store,
      recheckAfter: 2 * unit,
      backoff: () => unit,
      leaseDuration: 4 * unit,
      track: { booking: (booking) => ({ opens: Number((booking as { opens?: number }).opens) }) },
      client: clientWith(platform, unit / 10),
      on: {
        "booking.Confirmed": ({ booking, timers }) => {
          const { opens } = booking as unknown as { opens: number };
          for (const name of NAMES) timers.set(name, new Date(opens));
        },
        "booking.Cancelled": ({ timers }) => timers.clear(),
        "booking.timer.open": fire,
        "booking.timer.close": fire,
      },
    });
    webhooks.start();
    const tell = async (code: string, told: Told) => {
      const body = JSON.stringify(notificationOf({ bookingCode: code }));
      for (let n = 0; n < { lost: 0, once: 1, twice: 2 }[told]; n += 1) {
        const request = new Request("https://subscriber.example/", { method: "POST", body });
        const { status } = await webhooks.fetch(request);
        if (status !== 200) wrong.push(`a notification got ${status}`);
      }
    };
    return {
      webhooks,
      tell,
      store,
      kill: () => {
        isDead = true;
      },
    };
  }

  for (const step of steps) {
    note();
    if (step.do === "kill") {
      alive.kill();
      alive = start();
    } else if (step.do === "wait") await stage.wait(step.units * unit);
    else if (step.do === "stepClock") {
      for (const period of [...periods.values()].flat()) if (period.until >= period.at) period.hadCome = true;
      stage.stepClock!(step.units * unit);
    } else if (step.do === "cancel") {
      current.delete(step.code);
      platform.booking(step.code, "Cancelled", { opens: 0 });
      await alive.tell(step.code, step.told);
    } else {
      const at = Date.now() + step.in * unit;
      const period = { at, until: Date.now() };
      periods.get(step.code)!.push(period);
      current.set(step.code, period);
      platform.booking(step.code, "Confirmed", { opens: at });
      await alive.tell(step.code, step.told);
    }
  }
  // What a reconciler does: every booking is told once more.
  for (const code of CODES) if (periods.get(code)!.length > 0) await alive.tell(code, "once");
  /** Returns the events that are left, by one reading. In real time, the third look at an unchanged booking is 15 minutes away. */
  const left = async () => {
    const events = await alive.store.list({ limit: 1000 });
    const isFarLook = ({ source, dueAt }: StoredEvent) =>
      source === "recheck" && dueAt !== null && dueAt.getTime() > Date.now() + 10 * unit;
    return events.filter((event) => event.state !== "done" && !isFarLook(event));
  };
  for (let n = 0; n < 100; n += 1) {
    await stage.wait(2 * unit);
    if ((await left()).every(({ state }) => state === "parked")) break;
  }
  note();

  const written = await stage.written();
  for (const code of CODES)
    for (const name of NAMES) {
      const last = current.get(code);
      if (last && !fired.includes(`${code} ${name} ${last.at}`))
        wrong.push(`${code} ${name} ${last.at} was set last, and did not fire`);
      for (const { at } of periods.get(code)!) {
        const text = `${code} ${name} ${at}`;
        const times = written.filter((each) => each === text).length;
        const isSetOnce = periods.get(code)!.filter((each) => each.at === at).length === 1;
        if (stage.write && isSetOnce && times > 1) wrong.push(`${text} was written ${times} times`);
        if (stage.write && at === last?.at && times === 0) wrong.push(`${text} was not written`);
      }
    }
  for (const { eventId, state, dueAt } of await left())
    wrong.push(`${eventId} is ${state}, due at ${String(dueAt?.getTime())}`);
  alive.kill();
  return wrong;
}

function clientWith(platform: ReturnType<typeof platformOf>, delay: number) {
  return clientOf({
    fetch: async (url, init) => {
      await new Promise((resolve) => setTimeout(resolve, delay));
      return platform.fetch(url, init);
    },
  });
}
