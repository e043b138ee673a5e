// A handler with `stays` in front of a platform in memory. `calls` has each call of a thing, such as `door begin 1 10-13`.
import { createWebhookHandler } from "stayhook";
import { createStays, type Hold, hold, type Json, type Once, once } from "stayhook/stays";
import { vi } from "vitest";
import { handlerOf, notificationOf } from "../webhooks/support.ts";

type Stays = Parameters<typeof createStays>[0];
type Want = Stays["want"];

/** Two mails, nights, a door and a cleaning, as README has them. */
export const usual: Want = ({ checkIn, checkOut }, { at }) => [
  hold("nights"),
  hold("door", { from: at(checkIn, "15:00"), until: at(checkOut, "11:00") }),
  once("directions", { at: at(checkIn, "09:00", { days: -2 }), until: at(checkIn, "15:00") }),
  once("cleaning", { at: at(checkOut, "11:00"), owedFrom: at(checkIn, "15:00") }),
];

export interface Called {
  readonly text: string;
  readonly id: string;
  readonly thing: {
    readonly id: string;
    readonly stay: { readonly listingId: number; readonly checkIn: string; readonly checkOut: string };
    readonly value?: Json | undefined;
    readonly values: Readonly<Record<string, Json | undefined>>;
    readonly attempt: number;
    readonly signal: AbortSignal;
    readonly isEarly?: boolean;
    readonly atomically: (write: unknown) => void;
    readonly [field: string]: unknown;
  };
}

interface HouseOptions extends Omit<NonNullable<Parameters<typeof handlerOf>[0]>, "stays"> {
  readonly want?: Want;
  /** Called in each call of a thing, to throw, hang or return a value. */
  readonly act?: (call: Called) => unknown;
  /** The names of `apply`, if they are not those of `usual`. */
  readonly holds?: readonly string[];
  readonly onces?: readonly string[];
}

/** Makes `stays` that note their calls. */
export function notingStays({ want = usual, act = () => undefined, ...names }: HouseOptions = {}) {
  const calls: Called[] = [];
  const { holds = ["nights", "door"], onces = ["directions", "cleaning"] } = names;
  const noting = (name: string, suffix: string) => (thing: object) => {
    const given = thing as Called["thing"];
    const { listingId, checkIn, checkOut } = given.stay;
    const days = `${checkIn.slice(8)}-${checkOut.slice(8)}`;
    const text = `${name}${suffix} ${listingId} ${days}${given.isEarly ? " early" : ""}`;
    const call = { text, id: given.id, thing: given };
    calls.push(call);
    return act(call) as undefined;
  };
  const apply = {
    ...Object.fromEntries(
      holds.map((name) => [name, { begin: noting(name, " begin"), end: noting(name, " end") }]),
    ),
    ...Object.fromEntries(onces.map((name) => [name, noting(name, "")])),
  };
  const stays = createStays({ want: want as () => (Hold<string> | Once<string>)[], apply: apply as never });
  return { stays, calls };
}

/** Makes a handler with `stays`, whose events are handled by `handle` alone. */
export function houseOf(options: HouseOptions = {}) {
  const { want: _, act: __, holds: ___, onces: ____, ...given } = options;
  const { stays, calls } = notingStays(options);
  const handler = handlerOf({
    ...{ autoStart: false, recheckAfter: false, backoff: () => 1000, timeZone: "Europe/Paris", stays },
    ...given,
  });
  let told = 0;
  return {
    ...handler,
    calls,
    /** The texts of the calls since the last time. */
    took: () => {
      const since = calls.slice(told).map(({ text }) => text);
      told = calls.length;
      return since;
    },
    /** Tells the handler that a booking has changed. */
    notify: (bookingCode = "HX3K9") =>
      handler.deliver(notificationOf({ bookingCode, timestamp: new Date().toISOString() })),
    /** Books or changes a booking, and handles that. */
    async book(listingId: number, checkIn: string, checkOut: string, status = "Confirmed") {
      handler.platform.booking("HX3K9", status, { listingId, checkIn, checkOut });
      await this.notify();
      await this.handle();
    },
    /** Moves the clock to a time in Paris in May 2026, and handles what is due. */
    async at(time: string) {
      setTime(time);
      await this.handle();
    },
    handle: () => handler.webhooks.drain(),
    /** The store and the platform go on with another version of the app. */
    deploy(next: HouseOptions) {
      const { stays: others, calls: further } = notingStays(next);
      const { want: _w, act: _a, holds: _h, onces: _o, ...rest } = next;
      const webhooks = createWebhookHandler({
        ...{ autoStart: false, recheckAfter: false as const, backoff: () => 1000, timeZone: "Europe/Paris" },
        ...{
          client: handler.client,
          store: handler.store,
          on: {},
          verify: false as const,
          logger: handler.logger,
        },
        ...(rest as object),
        stays: others,
      });
      return { webhooks, calls: further, texts: () => further.map(({ text }) => text) };
    },
  };
}

/** Moves the clock to a time in Paris in May 2026, such as `12 11:00`, or in a later month, such as `06-12 11:00`. */
export function setTime(time: string): void {
  const [day = "", clock] = time.split(" ");
  vi.setSystemTime(new Date(`2026-${day.includes("-") ? day : `05-${day}`}T${clock}:00+02:00`));
}
