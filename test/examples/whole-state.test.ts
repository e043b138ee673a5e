// Plays every order of three changes, and every third one in CI, with stays whose timers have fired, and compares what each app keeps right with what
// the platform shows: open doors, door codes, mails and cleanings.
import { type BookingStay, memoryStore, StayhookClient, type WebhookHandler } from "stayhook";
import { createReconciler, type Reconciler } from "stayhook/reconcile";
import { createSandbox, type Sandbox } from "stayhook/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import { createSubscriber } from "../../examples/at-a-time/stays.ts";
import { internalsOf } from "../../src/webhooks/internals.ts";
import { isSoak } from "../support/soak.ts";
import { importApp, SECRET } from "./support/imported-app.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
// A zone without summer time, in which a day begins nine hours earlier than in UTC.
const ZONE = "Asia/Tokyo";
const AHEAD = 9 * HOUR;
const midnight = Math.floor(Date.now() / DAY) * DAY;
const day = (n: number) => new Date(midnight + n * DAY).toISOString().slice(0, 10);

interface Record {
  readonly bookingCode: string;
  status: string;
  listingId: number;
  checkIn: string;
  checkOut: string;
}

/** The form of the platform's dates. */
const forms = {
  times: (date: string) => new Date(Date.parse(date) - AHEAD).toISOString(),
  unreadable: (date: string) => date.split("-").reverse().join("/"),
};

/** Reads a date as the app does; `undefined` if it cannot be read. */
function read(date: string): string | undefined {
  if (date.includes("/")) return undefined;
  return date.endsWith("Z") ? new Date(Date.parse(date) + AHEAD).toISOString().slice(0, 10) : date;
}

/** Writes the dates in another form. Dates that cannot be read stay as they are. */
function write(booking: Record, form: (date: string) => string): void {
  const [checkIn, checkOut] = [read(booking.checkIn), read(booking.checkOut)];
  if (checkIn && checkOut) Object.assign(booking, { checkIn: form(checkIn), checkOut: form(checkOut) });
}

/** A change at the platform. `told`: a notification follows; else the reconciler has to find the change. */
interface Change {
  readonly name: string;
  readonly told: boolean;
  apply(booking: Record): void;
}

const changes: readonly Change[] = [
  { name: "another listing", told: true, apply: (booking) => void booking.listingId++ },
  { name: "another listing, untold", told: false, apply: (booking) => void booking.listingId++ },
  {
    name: "five days later",
    told: true,
    apply: (booking) => Object.assign(booking, { checkIn: day(16), checkOut: day(19) }),
  },
  {
    name: "earlier, untold",
    told: false,
    apply: (booking) => Object.assign(booking, { checkIn: day(9), checkOut: day(13) }),
  },
  {
    name: "check-out today",
    told: true,
    apply: (booking) => Object.assign(booking, { checkIn: day(10), checkOut: day(12) }),
  },
  { name: "cancelled", told: true, apply: (booking) => Object.assign(booking, { status: "Cancelled" }) },
  { name: "declined", told: true, apply: (booking) => Object.assign(booking, { status: "Declined" }) },
  { name: "confirmed", told: true, apply: (booking) => Object.assign(booking, { status: "Confirmed" }) },
  {
    name: "a status of tomorrow",
    told: true,
    apply: (booking) => Object.assign(booking, { status: "CheckedIn" }),
  },
  { name: "times in place of dates", told: true, apply: (booking) => write(booking, forms.times) },
  { name: "dates that cannot be read", told: true, apply: (booking) => write(booking, forms.unreadable) },
  {
    name: "canceled, in another spelling",
    told: false,
    apply: (booking) => Object.assign(booking, { status: "canceled" }),
  },
];

/** Changes that are played around a booking that vanishes and returns. */
const aroundGone: readonly Change[] = [
  ...changes.filter(({ name }) => ["another listing", "five days later", "cancelled"].includes(name)),
  { name: "gone", told: true, apply: (booking) => void gone.add(booking.bookingCode) },
  { name: "gone, untold", told: false, apply: (booking) => void gone.add(booking.bookingCode) },
  { name: "back", told: true, apply: (booking) => void gone.delete(booking.bookingCode) },
];
/** The codes of the bookings that the platform no longer returns. */
const gone = new Set<string>();

/** One booking, the changes that it goes through, its last stay that could be read, and whether this stay holds. */
interface Story {
  readonly booking: Record;
  readonly steps: readonly Change[];
  stay: { readonly listingId: number; readonly checkIn: string; readonly checkOut: string };
  holds: boolean;
  /** The houses that the guest has left before the end. */
  readonly left: Set<number>;
  /** The houses and arrivals of the mails until now. */
  readonly mailed: string[];
}

/** Updates what the app should know and do after a change at a time, epoch ms. */
function learn(story: Story, now: number): void {
  const before = { ...story };
  know(story);
  const { stay, holds } = story;
  if (isInHouse(before, now) && !(isInHouse(story, now) && before.stay.listingId === stay.listingId))
    story.left.add(before.stay.listingId);
  const isDue =
    Date.parse(stay.checkIn) - 2 * DAY + 9 * HOUR - AHEAD <= now &&
    now < Date.parse(stay.checkOut) + 11 * HOUR - AHEAD;
  // The last mail was about this house and these days already.
  const mail = `${stay.listingId} ${stay.checkIn}`;
  if (holds && isDue && story.mailed.at(-1) !== mail) story.mailed.push(mail);
}

/** A status that is new neither begins nor ends a stay. */
function know(story: Story): void {
  const { booking } = story;
  if (gone.has(booking.bookingCode)) {
    story.holds = false;
    return;
  }
  const [checkIn, checkOut] = [read(booking.checkIn), read(booking.checkOut)];
  if (checkIn && checkOut) story.stay = { listingId: booking.listingId, checkIn, checkOut };
  if (booking.status !== "CheckedIn") story.holds = booking.status === "Confirmed";
}

/** Whether a stay would begin while its dates cannot be read. Then the app can only wait. */
function beginsUnread(steps: readonly Change[]): boolean {
  const names = steps.map(({ name }) => name);
  const isEnd = (name: string) => /^cancel|^declined/.test(name);
  return names.includes("dates that cannot be read") && names.at(-1) === "confirmed" && names.some(isEnd);
}

function everyOrder(): Story[] {
  gone.clear();
  const ordersOf = (all: readonly Change[]) =>
    all.flatMap((one) => all.flatMap((other) => all.map((third) => [one, other, third] as const)));
  const vanishing = ordersOf(aroundGone).filter((steps) => steps.some(({ name }) => /^gone/.test(name)));
  // Every order of the first nine changes. A third of those with another form of a date or a status is enough.
  const some = ordersOf(changes).filter(
    (steps, number) => number % 3 === 0 || steps.every((step) => changes.indexOf(step) < 9),
  );
  return [...some, ...vanishing]
    .filter((steps) => new Set(steps).size === steps.length && !beginsUnread(steps))
    .filter((_, number) => isSoak || number % 3 === 0)
    .map((steps, number) => {
      const stay = { listingId: 1000 + 10 * number, checkIn: day(10), checkOut: day(14) };
      return {
        booking: { bookingCode: `B${number}`, status: "Confirmed", ...stay },
        steps,
        stay,
        holds: true,
        left: new Set<number>(),
        mailed: [`${stay.listingId} ${stay.checkIn}`],
      };
    });
}

/** The times of the apps: the door opens at 15:00 and closes at 11:00. */
const isInHouse = ({ stay, holds }: Story, now: number) =>
  holds &&
  Date.parse(stay.checkIn) + 15 * HOUR - AHEAD <= now &&
  now < Date.parse(stay.checkOut) + 11 * HOUR - AHEAD;

interface App {
  readonly webhooks: Pick<WebhookHandler, "fetch" | "drain" | "health">;
  readonly reconciler: Pick<Reconciler, "run">;
}

/** The platform: a sandbox that delivers, and answers with the bookings of the stories. */
function platformOf(stories: readonly Story[]) {
  const sandbox = createSandbox({ seed: 1 });
  onTestFinished(() => sandbox.close());
  const byCode = new Map(stories.map(({ booking }) => [booking.bookingCode, booking]));
  const answer = async (input: string | URL | Request, init?: RequestInit) => {
    const url = input instanceof Request ? input.url : String(input);
    const booking = byCode.get(/\/bookings\/([^/?]+)/.exec(url)?.[1] ?? "");
    if (booking && gone.has(booking.bookingCode)) return Response.json(null, { status: 404 });
    return booking ? Response.json(booking) : sandbox.fetch(input as string, init);
  };
  return { sandbox, answer };
}

const notify = (sandbox: Sandbox, { bookingCode }: Record) =>
  sandbox.send({ eventId: crypto.randomUUID(), timestamp: new Date(), bookingCode, listingId: null });

async function handled({ webhooks }: App): Promise<void> {
  for (let round = 0; round < 400; round++) {
    // A booking counts as gone after five attempts, between which minutes pass.
    await internalsOf(webhooks)?.store?.replay({ state: "retrying" });
    await webhooks.drain();
    const { counts } = await webhooks.health();
    if (counts && counts.pending + counts.processing + counts.retrying === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error("events wait for too long");
}

/** Plays each step of all stories at a time, and calls `compare` after each. */
async function play(
  stories: readonly Story[],
  sandbox: Sandbox,
  app: App,
  now: () => number,
  compare: (told: string) => void,
): Promise<void> {
  for (const step of [0, 1, 2]) {
    await Promise.all(
      stories.map(async (story) => {
        const change = story.steps[step]!;
        change.apply(story.booking);
        learn(story, now());
        if (change.told) await notify(sandbox, story.booking);
      }),
    );
    await handled(app);
    expect((await app.reconciler.run()).incomplete).toBeUndefined();
    await handled(app);
    compare(`after step ${step + 1}`);
  }
}

const orderOf = ({ steps }: Story) => steps.map(({ name }) => name).join(", then ");

test("examples/at-a-time, after the door has opened", async () => {
  const stories = everyOrder();
  const { sandbox, answer } = platformOf(stories);
  const client = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: sandbox.accessToken,
    fetch: answer,
  });
  const open = new Set<string>();
  const mails = new Map<string, BookingStay>();
  const cleanings = new Map<string, BookingStay & { readonly isEarly: boolean }>();
  const doorOf = ({ bookingCode, listingId }: BookingStay) => `${bookingCode} at ${listingId}`;
  let passed = 0;
  const { webhooks } = createSubscriber(client, memoryStore(), {
    zoneOf: () => ZONE,
    block: async () => {},
    release: async () => {},
    openDoor: async (stay) => {
      open.add(doorOf(stay));
      return "1234";
    },
    closeDoor: async (stay) => void open.delete(doorOf(stay)),
    mail: async (stay, text, id) => void (text.startsWith("How") && mails.set(id, stay)),
    clean: async (stay, id, isEarly) => void cleanings.set(id, { ...stay, isEarly }),
    decline: async () => {},
  });
  // The example reads at most 10 bookings a second.
  const reconciler = createReconciler(webhooks, { rate: 10_000 });
  onTestFinished(() => webhooks.close({ timeout: 100 }));
  onTestFinished(() => reconciler.close());
  const app = { webhooks, reconciler };
  sandbox.deliverTo(webhooks.fetch);
  await client.webhookConfig.ensure({ endpoints: { bookings: "https://app.example/" } });
  const until = async (days: number) => {
    const wait = midnight + days * DAY - Date.now() - passed;
    passed += wait;
    await handled(app);
    await sandbox.advance(wait);
    await handled(app);
  };
  const compare = (when: string) => {
    const now = Date.now() + passed;
    const wrong = stories.filter((story) => {
      const { bookingCode } = story.booking;
      const { listingId } = story.stay;
      const doors = [...Array(4).keys()].map((n) => `${bookingCode} at ${listingId - 3 + n}`);
      const isOpen = doors.filter((door) => open.has(door));
      const wanted = isInHouse(story, now) ? [`${bookingCode} at ${listingId}`] : [];
      return isOpen.join() !== wanted.join();
    });
    expect(wrong.map(orderOf), `wrong doors ${when}`).toEqual([]);
  };

  await Promise.all(stories.map(({ booking }) => notify(sandbox, booking)));
  await until(8.5);
  expect(mails.size).toBe(stories.length);
  await until(12);
  expect(open.size).toBe(stories.length);
  await play(stories, sandbox, app, () => Date.now() + passed, compare);
  for (const days of [13, 14.6, 17, 25]) {
    await until(days);
    compare(`on day ${days}`);
  }

  const textOf = (all: readonly string[]) => all.toSorted().join();
  // Whose stay begins on day 16 gets a mail for that day.
  const toMail = ({ stay, holds, mailed }: Story) => [
    ...mailed,
    ...(holds && stay.checkIn === day(16) ? [`${stay.listingId} ${day(16)}`] : []),
  ];
  const mailed = ({ booking }: Story) =>
    [...mails.values()]
      .filter(({ bookingCode }) => bookingCode === booking.bookingCode)
      .map(({ listingId, checkIn }) => `${listingId} ${checkIn}`);
  const wrongMails = stories.filter((story) => textOf(mailed(story)) !== textOf(toMail(story)));
  expect(wrongMails.map(orderOf), "wrong mails").toEqual([]);
  expect(stories.filter(({ holds }) => holds).length).toBeGreaterThan(100);
  const cleaned = ({ booking }: Story) =>
    [...cleanings.values()]
      .filter(({ bookingCode }) => bookingCode === booking.bookingCode)
      .map(({ listingId, checkOut, isEarly }) => `${listingId} ${isEarly ? day(12) : checkOut}`);
  // A house is cleaned on the day when the guest leaves it, and at the end. Who leaves twice on a day may cause two cleanings.
  const toClean = ({ left, stay, holds }: Story) => [
    ...[...left].map((listingId) => `${listingId} ${day(12)}`),
    ...(holds ? [`${stay.listingId} ${stay.checkOut}`] : []),
  ];
  const uniqueOf = (all: readonly string[]) => textOf([...new Set(all)]);
  const wrongCleanings = stories.filter((story) => uniqueOf(cleaned(story)) !== uniqueOf(toClean(story)));
  expect(wrongCleanings.map(orderOf), "wrong cleanings").toEqual([]);
});

test("examples/at-a-time, first seen after check-out", async () => {
  const [story] = everyOrder() as [Story];
  Object.assign(story.booking, { checkIn: day(-5), checkOut: day(-2) });
  const { sandbox, answer } = platformOf([story]);
  const client = new StayhookClient({ baseUrl: "https://platform.example", accessToken: "a", fetch: answer });
  const did: string[] = [];
  const note = (what: string) => async () => void did.push(what);
  const { webhooks } = createSubscriber(client, memoryStore(), {
    zoneOf: () => ZONE,
    block: async () => {},
    release: async () => {},
    openDoor: async () => {
      did.push("open");
      return "1234";
    },
    closeDoor: note("close"),
    mail: note("mail"),
    clean: note("clean"),
    decline: note("decline"),
  });
  onTestFinished(() => webhooks.close({ timeout: 100 }));
  sandbox.deliverTo(webhooks.fetch);
  await sandbox.send(
    {
      eventId: crypto.randomUUID(),
      timestamp: new Date(),
      bookingCode: story.booking.bookingCode,
      listingId: null,
    },
    { url: "https://app.example/" },
  );
  await handled({ webhooks, reconciler: { run: vi.fn() } });
  expect(did).toEqual([]);
});

test("examples/door-codes", async () => {
  const stories = everyOrder();
  for (const { booking } of stories) Object.assign(booking, { checkIn: day(-2), checkOut: day(14) });
  for (const story of stories) know(story);
  const { sandbox, answer } = platformOf(stories);
  const held = new Set<string>();
  const printed = vi.spyOn(console, "log").mockImplementation((line: unknown) => {
    const [, no, code, at] = /^(no )?code for (\S+) at (\d+)$/.exec(String(line)) ?? [];
    if (code !== undefined && no) held.delete(`${code} ${at}`);
    else if (code !== undefined) held.add(`${code} ${at}`);
  });
  const warned = vi.spyOn(console, "warn").mockImplementation(() => {});
  onTestFinished(() => [printed, warned].forEach((spy) => void spy.mockRestore()));
  const zones = stories.flatMap(({ booking }) => [0, 1, 2].map((n) => [booking.listingId + n, ZONE]));
  const { accessToken } = sandbox;
  const settings = { accessToken, answer, zone: ZONE, zones: Object.fromEntries(zones) };
  const app = await importApp("door-codes", settings);
  sandbox.deliverTo((request) =>
    app.webhooks.fetch(new Request(`${request.url}?key=${encodeURIComponent(SECRET)}`, request)),
  );
  const client = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: sandbox.accessToken,
    fetch: sandbox.fetch,
  });
  await client.webhookConfig.ensure({ endpoints: { bookings: "https://app.example/" } });
  const wanted = (story: Story) =>
    isInHouse(story, Date.now()) ? [`${story.booking.bookingCode} ${story.stay.listingId}`] : [];
  const compare = (when: string) =>
    expect([...held].toSorted(), when).toEqual(stories.flatMap(wanted).toSorted());
  await Promise.all(stories.map(({ booking }) => notify(sandbox, booking)));
  await handled(app);
  compare("at first");
  await play(stories, sandbox, app, Date.now, compare);
});
