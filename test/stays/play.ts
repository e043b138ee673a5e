// Random moves of twelve bookings in six houses of four time zones (house 6 has none), over a change of the clocks, with things
// that fail before and after they act, against a model that knows nothing of the engine. Prints the seed of what goes wrong.
import { randomUUID } from "node:crypto";
import { mock } from "node:test";
import { createWebhookHandler, localTime, StayhookClient, type WebhookHandler } from "../../src/index.ts";
import { createStays, hold, once } from "../../src/stays/stays.ts";
import type { EventStore } from "../../src/stores/index.ts";

type House = 1 | 2 | 3 | 4 | 5 | 6;
const HOUSES: readonly House[] = [1, 2, 3, 4, 5, 6];
const ZONES: Readonly<Record<number, string>> = {
  1: "Europe/Lisbon",
  2: "Europe/Paris",
  3: "America/New_York",
  4: "Europe/Paris",
  5: "Asia/Tokyo",
};
const HOUR = 3_600_000;
const dayOf = (time: number) => new Date(time).toISOString().slice(0, 10);
const later = (day: string, days: number) => dayOf(Date.parse(day) + days * 24 * HOUR);

interface Booked {
  readonly bookingCode: string;
  readonly status: string;
  readonly listingId: number;
  readonly checkIn: string;
  readonly checkOut: string;
}

export interface PlayOptions {
  readonly seed: number;
  /** Makes a store. Called once for each process. */
  readonly open: () => Promise<EventStore<unknown>> | EventStore<unknown>;
  /** The chance of a call to fail before, and again after it has acted. */
  readonly fail?: number;
  /** Below 1: the chance that a move is handled before the next one. */
  readonly lazy?: number;
  /** The chance that a process ends within a call, and another one goes on. */
  readonly kill?: number;
  /** The chance that the platform does not answer a read. */
  readonly outage?: number;
  readonly moves?: number;
  /** Tells of the calls and moves of this booking. */
  readonly code?: string | undefined;
}

export interface Played {
  readonly faults: readonly string[];
  readonly told: readonly string[];
  /** How often things were called. */
  readonly calls: number;
}

function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

export async function play(options: PlayOptions): Promise<Played> {
  mock.timers.enable({ apis: ["Date"], now: Date.parse("2027-03-20T08:00:00Z") });
  try {
    return await new Play(options).run();
  } finally {
    mock.timers.reset();
  }
}

class Play {
  readonly #options: Required<Omit<PlayOptions, "code">> & { readonly code?: string | undefined };
  readonly #random: () => number;
  readonly #faults: string[] = [];
  readonly #told: string[] = [];
  #calls = 0;
  // The platform. Another booking vouches for it when one is gone.
  readonly #platform = new Map<string, Booked | undefined>();
  // The world that the things act on.
  readonly #nights = new Map<string, Stay>();
  readonly #doors = new Map<string, Stay>();
  readonly #mails: Stay[] = [];
  readonly #cleanings: Stay[] = [];
  readonly #ids = new Set<string>();
  /** The stays of mails whose call has not failed after it had sent them: those count as not sent when their time is over. */
  readonly #sent = new Set<Stay>();
  /** The ids of begins that no `end` has followed, by thing and booking. */
  readonly #guests = new Map<string, number | undefined>();
  readonly #left: string[] = [];
  #webhooks!: WebhookHandler;
  #store!: EventStore<unknown>;
  /** Rejects the call of a process that ends. */
  #dies: (() => void) | undefined;

  constructor(options: PlayOptions) {
    this.#options = { fail: 0.2, lazy: 1, kill: 0, outage: 0, moves: 60, ...options };
    this.#random = randomOf(options.seed);
  }

  async run(): Promise<Played> {
    this.#platform.set("witness", {
      ...{ bookingCode: "witness", status: "Confirmed", listingId: 1 },
      ...{ checkIn: "2029-01-01", checkOut: "2029-01-03" },
    });
    await this.#start();
    await this.#notify("witness");
    await this.#settle();
    this.#nights.delete("witness");
    for (let step = 0; step < this.#options.moves && this.#faults.length === 0; step += 1)
      await this.#move(step);
    await this.#settle();
    this.#seeGuests();
    this.#check("at the end");
    await this.#webhooks.close({ timeout: 0 });
    await this.#store.close?.();
    return { faults: this.#faults, told: this.#told, calls: this.#calls };
  }

  async #start(): Promise<void> {
    const { open } = this.#options;
    this.#store = await open();
    const client = new StayhookClient({
      ...{ baseUrl: "https://platform.example", accessToken: "t", maxRetries: 0 },
      fetch: async (input: string) => {
        if (this.#random() < this.#options.outage) return new Response("", { status: 503 });
        const booking = this.#platform.get(new URL(input).pathname.split("/").pop()!);
        return Response.json(booking ?? { message: "not found" }, { status: booking ? 200 : 404 });
      },
    });
    this.#webhooks = createWebhookHandler({
      ...{ client, store: this.#store, verify: false as const, on: {}, autoStart: false, logger: () => {} },
      ...{ backoff: () => 1000, maxAttempts: 1000, recheckAfter: false as const },
      timeZone: ({ listingId }) => ZONES[Number(listingId)],
      stays: this.#stays(),
    });
  }

  #stays() {
    const fallible =
      <T extends { readonly stay: Stay }>(act: (thing: T) => unknown) =>
      async (thing: T): Promise<void> => {
        this.#calls += 1;
        await this.#mayFail();
        act(thing);
        await this.#mayFail();
      };
    const onceAnId = (list: Stay[]) =>
      fallible(({ id, stay, isEarly }: { id: string; stay: Stay; isEarly: boolean }) => {
        this.#tell(stay.bookingCode, `${id}${isEarly ? " early" : ""}`);
        if (this.#ids.has(id)) return;
        this.#ids.add(id);
        list.push(stay);
      });
    const place = ({ stay, name }: { stay: Stay; name: string }) =>
      `${name} ${stay.listingId} ${stay.bookingCode}`;
    const open = new Map<string, { readonly id: string; readonly stay: Stay }>();
    const openAt = (thing: { stay: Stay; name: string }) => {
      const known = open.get(place(thing));
      // The nights end without a call then.
      return known && !(thing.name === "nights" && isForgotten(known.stay)) ? known.id : undefined;
    };
    const begins = (thing: { stay: Stay; name: string; id: string }) => {
      const known = openAt(thing);
      if (known !== undefined && known !== thing.id)
        this.#faults.push(`${thing.id} began before ${known} ended`);
      if (this.#ids.has(thing.id)) this.#faults.push(`${thing.id} began again after its end`);
      open.set(place(thing), thing);
      this.#tell(thing.stay.bookingCode, `begin ${thing.id} ${thing.stay.checkIn} ${thing.stay.checkOut}`);
    };
    const ends = (thing: { stay: Stay; name: string; id: string }) => {
      const known = openAt(thing);
      if (known !== undefined && known !== thing.id)
        this.#faults.push(`${thing.id} ended in the place of ${known}`);
      open.delete(place(thing));
      this.#ids.add(thing.id);
      this.#tell(thing.stay.bookingCode, `end ${thing.id} ${thing.stay.checkIn} ${thing.stay.checkOut}`);
    };
    return createStays({
      want: ({ checkIn, checkOut }, { at }) => [
        hold("nights"),
        hold("door", { from: at(checkIn, "15:00"), until: at(checkOut, "11:00") }),
        once("mail", { at: at(checkIn, "09:00", { days: -2 }), until: at(checkOut, "11:00") }),
        once("cleaning", { at: at(checkOut, "11:00"), owedFrom: at(checkIn, "15:00") }),
      ],
      apply: {
        nights: {
          begin: fallible((thing) => {
            begins(thing);
            this.#nights.set(thing.stay.bookingCode, thing.stay);
          }),
          end: fallible((thing) => {
            ends(thing);
            const { bookingCode, listingId } = thing.stay;
            if (this.#nights.get(bookingCode)?.listingId === listingId) this.#nights.delete(bookingCode);
          }),
        },
        door: {
          begin: fallible((thing) => {
            begins(thing);
            this.#doors.set(`${thing.stay.listingId} ${thing.stay.bookingCode}`, thing.stay);
          }),
          end: fallible((thing) => {
            ends(thing);
            this.#doors.delete(`${thing.stay.listingId} ${thing.stay.bookingCode}`);
          }),
        },
        mail: async (thing) => {
          await onceAnId(this.#mails)(thing);
          this.#sent.add(this.#mails.findLast(({ bookingCode }) => bookingCode === thing.stay.bookingCode)!);
        },
        cleaning: onceAnId(this.#cleanings),
      },
    });
  }

  async #mayFail(): Promise<void> {
    if (this.#random() < this.#options.fail) throw new Error("the lock is away");
    if (this.#random() >= this.#options.kill || !this.#dies) return;
    this.#dies();
    await new Promise(() => {});
  }

  #tell(code: string, text: string): void {
    if (code === this.#options.code) this.#told.push(`${new Date().toISOString()} ${text}`);
  }

  async #notify(code: string): Promise<void> {
    const timestamp = new Date().toISOString();
    const body = JSON.stringify({ eventId: randomUUID(), timestamp, bookingCode: code, listingId: null });
    for (let n = this.#random() < 0.2 ? 2 : 1; n > 0; n -= 1)
      await this.#webhooks.receive({
        ...{ method: "POST", url: "https://me.example/?topic=bookings", body },
        headers: { "content-type": "application/json" },
      });
  }

  /** Handles what is due. If the process ends meanwhile, another one goes on when its leases have ended. */
  async #drain(): Promise<void> {
    const died = new Promise<true>((resolve) => {
      this.#dies = () => resolve(true);
    });
    const hasDied = await Promise.race([this.#webhooks.drain().then(() => false), died]);
    this.#dies = undefined;
    if (!hasDied) return;
    tick(31_000);
    await this.#start();
  }

  async #settle(): Promise<void> {
    const isZoneless = ({ history }: { history: readonly { readonly error?: string | undefined }[] }) =>
      history.at(-1)?.error?.includes("no time zone");
    for (let n = 0, calm = 0; n < 1500 && calm < 6; n += 1) {
      await this.#drain();
      const lists = (["retrying", "pending", "processing"] as const).map((state) =>
        this.#store.list({ state, limit: 100 }),
      );
      const waiting = (await Promise.all(lists)).flat();
      calm = waiting.every(isZoneless) ? calm + 1 : 0;
      tick(calm > 0 ? 5 : 1001);
      if (n === 1499)
        this.#faults.push(
          `does not settle: ${JSON.stringify(waiting.map(({ eventId, history }) => [eventId, history.at(-1)?.error]))}`,
        );
    }
  }

  // The model.
  #at({ listingId }: Booked, day: string, time: string, offset?: { days: number }): number {
    const zone = ZONES[listingId];
    return zone ? +localTime(day, time, zone, offset) : Number.NaN;
  }
  #arrival = (booking: Booked) => this.#at(booking, booking.checkIn, "15:00");
  #departure = (booking: Booked) => this.#at(booking, booking.checkOut, "11:00");
  #mailTime = (booking: Booked) => this.#at(booking, booking.checkIn, "09:00", { days: -2 });
  #isIn = (booking: Booked, now: number) =>
    isHeld(booking) && this.#arrival(booking) <= now && now < this.#departure(booking);

  get #codes(): string[] {
    return [...this.#platform.keys()].filter((code) => code !== "witness");
  }

  #seeGuests(): void {
    for (const code of this.#codes) {
      const booking = this.#platform.get(code);
      const house = booking && this.#isIn(booking, Date.now()) ? booking.listingId : undefined;
      const before = this.#guests.get(code);
      if (before !== undefined && before !== house) this.#left.push(`${code} ${before}`);
      this.#guests.set(code, house);
    }
  }

  #check(when: string): void {
    const now = Date.now();
    const expect = (what: string, got: unknown, wanted: unknown) =>
      got === wanted ||
      this.#faults.push(`${new Date().toISOString()} ${when}: ${what}: ${got}, not ${wanted}`);
    const shown = (stay: Stay | undefined) => stay && `${stay.listingId} ${stay.checkIn} ${stay.checkOut}`;
    for (const code of this.#codes) {
      const booking = this.#platform.get(code);
      const isKnown = isHeld(booking) && ZONES[booking.listingId] !== undefined;
      const nights = this.#nights.get(code);
      if (!isForgotten(booking) && !isForgotten(nights))
        expect(`nights of ${code}`, shown(nights), isKnown ? shown(booking) : undefined);
      const open = [...this.#doors.keys()].filter((key) => key.endsWith(` ${code}`));
      expect(
        `doors of ${code}`,
        open.join(),
        booking && this.#isIn(booking, now) ? `${booking.listingId} ${code}` : "",
      );
      const mails = this.#mails.filter(({ bookingCode }) => bookingCode === code);
      const sent = mails.map(({ listingId, checkIn }) => `${listingId} ${checkIn}`);
      expect(
        `a mail twice to ${code}`,
        sent.some((mail, n) => mail === sent[n - 1] && this.#sent.has(mails[n - 1]!)),
        false,
      );
      if (isHeld(booking) && this.#mailTime(booking) <= now && now < this.#departure(booking))
        expect(`last mail to ${code}`, sent.at(-1), `${booking.listingId} ${booking.checkIn}`);
    }
    // If several moves are handled as one, nobody can know each house that a guest has left.
    const cleaned = this.#cleanings.map(({ bookingCode, listingId }) => `${bookingCode} ${listingId}`);
    if (this.#options.lazy === 1) expect("cleanings", cleaned.sort().join(), this.#left.toSorted().join());
  }

  async #handle(when: string): Promise<void> {
    if (this.#random() > this.#options.lazy) {
      // Some of the things act, and some fail, before the next move.
      for (let n = Math.floor(this.#random() * 3); n > 0; n -= 1, tick(1001)) await this.#drain();
      return;
    }
    await this.#settle();
    this.#seeGuests();
    if (this.#options.lazy === 1) this.#check(when);
  }

  async #goOn(duration: number): Promise<void> {
    const end = Date.now() + duration;
    while (Date.now() < end) {
      const held = [...this.#platform.values()].filter(isHeld);
      const times = held.flatMap((each) => [
        this.#arrival(each),
        this.#departure(each),
        this.#mailTime(each),
      ]);
      mock.timers.setTime(Math.min(end, ...times.filter((time) => time > Date.now())));
      this.#seeGuests();
      if (this.#random() < this.#options.lazy) await this.#settle();
      this.#seeGuests();
    }
  }

  #pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.#random() * list.length)]!;
  }

  readonly #moves: Readonly<Record<string, (booking: Booked) => Partial<Booked> | undefined>> = {
    extend: (booking) => ({ checkOut: later(booking.checkOut, 1 + Math.floor(this.#random() * 3)) }),
    shorten: ({ checkIn, checkOut }) =>
      later(checkOut, -1) > checkIn ? { checkOut: later(checkOut, -1) } : {},
    house: () => ({ listingId: this.#pick(HOUSES) }),
    cancel: () => ({ status: "Cancelled" }),
    confirm: () => ({ status: "Confirmed" }),
    leaveEarly: (booking) =>
      this.#isIn(booking, Date.now()) && dayOf(Date.now()) > booking.checkIn
        ? { checkOut: dayOf(Date.now()) }
        : {},
    shift: ({ checkIn, checkOut }) => {
      const days = Math.floor(this.#random() * 9) - 3;
      return { checkIn: later(checkIn, days), checkOut: later(checkOut, days) };
    },
    vanish: () => (this.#random() < 0.5 ? undefined : {}),
    same: () => ({}),
    wait: () => ({}),
  };

  #book(): Partial<Booked> {
    const checkIn = later(dayOf(Date.now()), Math.floor(this.#random() * 6));
    const checkOut = later(checkIn, 1 + Math.floor(this.#random() * 5));
    return {
      status: this.#random() < 0.2 ? "Request" : "Confirmed",
      listingId: this.#pick(HOUSES),
      checkIn,
      checkOut,
    };
  }

  async #move(step: number): Promise<void> {
    const codes = this.#codes;
    const isNew = codes.length === 0 || (codes.length < 12 && this.#random() < 0.3);
    const code = isNew ? `B${codes.length}` : this.#pick(codes);
    const [move, before] = [this.#pick(Object.keys(this.#moves)), this.#platform.get(code)];
    const change = before ? this.#moves[move]!(before) : this.#book();
    const booking = change && ({ ...before, bookingCode: code, ...change } as Booked);
    this.#platform.set(code, booking);
    // A stay that moves from the future into the past: the guest may have been there.
    const now = Date.now();
    if (
      before &&
      booking &&
      isHeld(before) &&
      isHeld(booking) &&
      now < this.#arrival(before) &&
      now >= this.#departure(booking)
    )
      this.#left.push(`${code} ${booking.listingId}`);
    this.#seeGuests();
    this.#tell(code, `${before ? move : "book"} ${JSON.stringify(booking)}`);
    if (move !== "wait" || !before) await this.#notify(code);
    await this.#handle(`step ${step} ${move} ${code}`);
    await this.#goOn(Math.floor(this.#random() * 30) * HOUR + Math.floor(this.#random() * 60) * 60_000);
    if (this.#options.lazy === 1) this.#check(`after step ${step}`);
  }
}

interface Stay {
  readonly bookingCode: string;
  readonly listingId: number;
  readonly checkIn: string;
  readonly checkOut: string;
}

/** Whether a hold without an `until` has ended without a call: 30 days after the check-out. */
function isForgotten(stay: Stay | undefined): boolean {
  return stay !== undefined && Date.now() >= Date.parse(stay.checkOut) + 30 * 24 * HOUR;
}

function isHeld(booking: Booked | undefined): booking is Booked {
  return booking?.status === "Confirmed";
}

function tick(ms: number): void {
  mock.timers.setTime(Date.now() + ms);
}
