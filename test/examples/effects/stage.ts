// Plays all rows at once on one app: a clock that jumps, a platform, and a log of what the app does.
import { localTime } from "stayhook";
import { createSandbox } from "stayhook/testing";
import { onTestFinished, vi } from "vitest";
import type { Fields, Row } from "./rows.ts";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const EPOCH = Date.parse("2027-05-03T00:00:00Z");
export const ZONE = "Europe/Lisbon";
/** Each row has a hundred houses of its own. */
const HOUSES = 100;

const dayOf = (n: number) => new Date(EPOCH + n * DAY).toISOString().slice(0, 10);
const numberOf = (day: string) => Math.round((Date.parse(day) - EPOCH) / DAY);

export interface App {
  readonly webhooks: {
    fetch(request: Request): Promise<Response>;
    drain(): Promise<{ readonly done: number; readonly failed: number }>;
  };
  readonly reconciler: { run(): Promise<unknown>; watch(code: string, options?: object): Promise<unknown> };
  /** The URL of the route for notifications. */
  readonly url?: string;
  readonly account?: string;
}

/** The time zone of a house. House 99 has none. */
export function zoneOf(rows: readonly Row[], listingId: number): string | undefined {
  if (listingId % HOUSES === 99) return undefined;
  return rows[Math.floor(listingId / HOUSES) - 1]?.zone ?? ZONE;
}

export const listingsOf = (rows: readonly Row[]) =>
  rows.flatMap((_, index) => [7, 8, 9].map((house) => (index + 1) * HOUSES + house));

interface Noted {
  readonly what: string;
  readonly code: string;
  readonly house: number;
  readonly at: number;
  readonly id?: string | undefined;
}

export type Stage = ReturnType<typeof setStage>;

/** Makes the clock, the platform and the log. Start the app after it. */
export function setStage(rows: readonly Row[], accounts?: readonly string[]) {
  vi.useFakeTimers({ toFake: ["Date"], now: EPOCH });
  const sandbox = createSandbox({ seed: 1, ...(accounts && { accounts }) });
  onTestFinished(async () => {
    await sandbox.close();
    vi.useRealTimers();
  });
  const codeOf = (row: Row) => `B${rows.indexOf(row) + 1}`;
  const bookings = new Map<string, Record<string, unknown>>();
  const answers = new Map<string, number>();
  const broken = new Set<string>();
  const log: Noted[] = [];

  const answer = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const code = /\/bookings\/([^/?]+)/.exec(input instanceof Request ? input.url : String(input))?.[1];
    if (code === undefined) return sandbox.fetch(input as string, init);
    const status = answers.get(code) ?? (bookings.has(code) ? 200 : 404);
    return Response.json(status === 200 ? bookings.get(code) : null, { status });
  };

  const write = (row: Row, { house, checkIn, checkOut, status }: Fields) => {
    const day = (value: number | string | undefined) => (typeof value === "number" ? dayOf(value) : value);
    const fields = {
      listingId: house && (rows.indexOf(row) + 1) * HOUSES + house,
      checkIn: day(checkIn),
      checkOut: day(checkOut),
      status,
    };
    const given = Object.entries(fields).filter(([, value]) => value !== undefined);
    const bookingCode = codeOf(row);
    bookings.set(bookingCode, { bookingCode, ...bookings.get(bookingCode), ...Object.fromEntries(given) });
  };

  /** Notes a call of the app. Throws once if the row says so. */
  const note = (what: string, code: string, house: number, id?: string) => {
    if (broken.delete(code)) throw new Error("The lock does not answer.");
    log.push({ what, code, house: house % HOUSES, at: Date.now(), id });
  };

  const timeIn = (row: Row, at: string) => {
    const [day = "", time = ""] = at.split(" ");
    return localTime(dayOf(Number(day)), time, row.zone ?? ZONE).getTime();
  };

  /** Plays all rows to the day 17. */
  async function play(app: App): Promise<void> {
    const { webhooks, reconciler, account, url = "https://app.example/" } = app;
    sandbox.deliverTo(webhooks.fetch);
    const sender = account ? sandbox.account(account) : sandbox;
    const tell = (row: Row) =>
      sender.send(
        { eventId: crypto.randomUUID(), timestamp: new Date(), bookingCode: codeOf(row), listingId: null },
        { url },
      );
    /** Handles events until none is due. A timer may wait for the change before it. */
    const handle = async () => {
      for (let round = 0; round < 20; round++) {
        const { done, failed } = await webhooks.drain();
        if (done + failed === 0) return;
        vi.setSystemTime(Date.now() + 200);
      }
    };
    const apply = async (row: Row, what: Fields | string) => {
      if (typeof what !== "string") write(row, what);
      else if (what === "gone" || what === "refused") answers.set(codeOf(row), what === "gone" ? 404 : 403);
      else if (what === "back") answers.delete(codeOf(row));
      else if (what === "broken") return void broken.add(codeOf(row));
      else if (what === "watch")
        return void (await reconciler.watch(codeOf(row), account ? { account } : {}));
      await tell(row);
    };

    const acts: { at: number; run?: () => Promise<unknown> }[] = [];
    for (const row of rows) {
      const { at = "0 07:00", untold, ...fields } = row.booked ?? {};
      write(row, { house: 7, checkIn: 2, checkOut: 8, status: "Confirmed", ...fields });
      if (!untold) acts.push({ at: timeIn(row, at), run: () => tell(row) });
      for (const [when, what] of row.steps) {
        const time = timeIn(row, when);
        acts.push({ at: time, run: () => apply(row, what) }, { at: time + 10_000 });
        // A record is gone after five attempts.
        if (/gone|refused/.test(row.name)) for (let n = 1; n < 20; n++) acts.push({ at: time + n * MINUTE });
      }
    }
    for (let day = 0; day < 17; day++) {
      for (const hour of [8, 10, 14, 16, 18, 22]) acts.push({ at: EPOCH + day * DAY + hour * 60 * MINUTE });
      if (day % 5 === 4) acts.push({ at: EPOCH + (day + 0.9) * DAY, run: () => reconciler.run() });
    }
    acts.sort((one, other) => one.at - other.at);
    for (const [index, { at, run }] of acts.entries()) {
      vi.setSystemTime(Math.max(at, Date.now()));
      await run?.();
      if (acts[index + 1]?.at === at) continue;
      await sandbox.settled();
      await handle();
    }
  }

  const localOf = (row: Row, at: number) => {
    const options = { timeZone: row.zone ?? ZONE, hour: "2-digit", hourCycle: "h23" } as const;
    const day = new Intl.DateTimeFormat("sv-SE", { timeZone: options.timeZone }).format(at);
    return { day: numberOf(day), hour: new Intl.DateTimeFormat("en", options).format(at) };
  };
  const noted = (row: Row, ...what: string[]) =>
    log.filter((each) => each.code === codeOf(row) && what.includes(each.what));
  /** Returns the house and the day of each call, but of one with a repeated id. */
  const days = (row: Row, what: string) => {
    const calls = noted(row, what);
    const first = calls.filter(({ id }, n) => !id || calls.findIndex((call) => call.id === id) === n);
    return first.map(({ house, at }) => `${house} ${localOf(row, at).day}`);
  };
  const door = (row: Row): string[] => {
    const found: string[] = [];
    const since = new Map<number, number>();
    const text = (at: number) => `${localOf(row, at).day} ${localOf(row, at).hour}h`;
    for (const { what, house, at } of noted(row, "open", "close")) {
      if (what === "open" && !since.has(house)) since.set(house, at);
      if (what === "close" && since.has(house)) {
        found.push(`${house} ${text(since.get(house)!)}-${text(at)}`);
        since.delete(house);
      }
    }
    return [...found, ...[...since].map(([house, at]) => `${house} ${text(at)}-ever`)];
  };
  /** Writes a stay of a table as the rows do. */
  const staysOf = (row: Row, found: readonly Record<string, unknown>[]) =>
    found
      .filter(({ bookingCode }) => bookingCode === codeOf(row))
      .map(
        ({ listingId, checkIn, checkOut }) =>
          `${Number(listingId) % HOUSES} ${[checkIn, checkOut].map((day) => numberOf(String(day))).join("-")}`,
      );
  /** Writes an order of a table as the rows do. */
  const daysOf = (row: Row, found: readonly Record<string, unknown>[]) =>
    found
      .filter(({ bookingCode }) => bookingCode === codeOf(row))
      .map(
        ({ listingId, orderedAt }) =>
          `${Number(listingId) % HOUSES} ${localOf(row, Date.parse(String(orderedAt))).day}`,
      );

  return { sandbox, answer, note, play, noted, days, daysOf, door, staysOf };
}
