import { isDeepStrictEqual } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  type Booking,
  createWebhookHandler,
  type Listing,
  memoryStore,
  StayhookClient,
  stay,
} from "../../src/index.ts";
import {
  type AnswerForms,
  profileForms,
  type SandboxProfile,
  sandboxProfiles,
} from "../support/answers/profiles.ts";
import { createProfiledSandbox } from "../support/answers/sandbox.ts";
import { randomOf } from "./random.ts";

const hooks = "https://subscriber.example/hooks?key=s";
const first = { bookingCode: "B1", listingId: 11, checkIn: "2026-07-01", checkOut: "2026-07-04" };
const second = { bookingCode: "B2", listingId: 12, checkIn: "2026-12-30", checkOut: "2027-01-02" };

/** Runs a day's actions with a client and a handler. The platform's answers have the forms of the profile. */
async function day(profile: SandboxProfile, overHttp: boolean) {
  const sandbox = createProfiledSandbox({ seed: 1, profile });
  onTestFinished(() => sandbox.close());
  const warnings: string[] = [];
  const logger = { debug() {}, info() {}, warn: (text: string) => warnings.push(text), error() {} };
  const { accessToken } = sandbox;
  const client = overHttp
    ? new StayhookClient({
        baseUrl: (await sandbox.listen()).url,
        accessToken,
        logger,
        allowInsecureHttp: true,
      })
    : new StayhookClient({ baseUrl: "https://any.example", accessToken, logger, fetch: sandbox.fetch });

  const calls: unknown[] = [];
  const webhooks = createWebhookHandler({
    client,
    store: memoryStore(),
    verify: false,
    autoStart: false,
    logger,
    on: {
      fallback: (event) => {
        if (event.type === "unknown" || event.type === "message") throw new Error("it is about a record");
        const { type, status, previous, changed } = event;
        calls.push({
          type,
          status,
          previousStatus: previous?.status,
          changed,
          ...(event.booking ? shown(event.booking) : listed(event.listing)),
        });
      },
    },
  });
  sandbox.deliverTo(webhooks.fetch);
  const told = async (event: Promise<unknown>) => {
    await event;
    await sandbox.settled();
    expect(await webhooks.drain()).toMatchObject({ failed: 0 });
  };

  const config = { isActive: true, endpoints: { bookings: hooks } };
  const both = { isActive: true, endpoints: { bookings: hooks, listings: hooks } };
  const error = (call: Promise<unknown>) =>
    call.then(
      () => undefined,
      ({ name, status, requestId }) => ({ name, status, named: typeof requestId }),
    );
  const { webhookConfig } = client;
  const configuring = {
    none: await webhookConfig.get(),
    nothingToUpdate: await error(webhookConfig.update(config)),
    created: known(await webhookConfig.create(config)),
    twice: await error(webhookConfig.create(config)),
    refused: await error(client.request("PUT", "/v2/webhooks/config", { body: { isActive: 1 } })),
    got: known(await webhookConfig.get()),
    updated: known(await webhookConfig.update(both)),
    off: known(await webhookConfig.toggle(false)),
    isOff: known(await webhookConfig.get()),
    ensured: await ensured(webhookConfig.ensure({ endpoints: { bookings: hooks } })),
    again: await ensured(webhookConfig.ensure({ endpoints: { bookings: hooks } })),
    left: sandbox.webhookConfig,
  };

  const noListings = await client.listings.list();
  for (const { listingId } of [first, second])
    await sandbox.listings.submit({ listingId, listingName: `Loft ${listingId}` });
  await told(sandbox.listings.publish(11));
  await told(sandbox.bookings.request(first));
  await told(sandbox.bookings.approve("B1"));
  await told(sandbox.bookings.cancel("B1"));
  await told(sandbox.bookings.instantBook(second));
  await told(sandbox.bookings.cancel("B2"));

  const reading = {
    noListings,
    listings: (await client.listings.list()).map(listed),
    listing: listed(await client.listings.get(11)),
    booking: shown(await client.bookings.get("B2")),
    missing: [await error(client.bookings.get("B9")), await error(client.listings.get(9))],
  };
  const ending = {
    deleted: known(await webhookConfig.delete()),
    gone: await webhookConfig.get(),
    twice: known(await webhookConfig.delete()),
    recreated: (await webhookConfig.ensure({ endpoints: { listings: hooks } })).action,
  };
  await webhooks.close();
  return { configuring, reading, calls, ending, warnings };
}

const known = (config: { isActive: boolean; endpoints: object } | undefined) =>
  config ? { isActive: config.isActive, endpoints: config.endpoints } : "not shown";
const ensured = async (call: ReturnType<StayhookClient["webhookConfig"]["ensure"]>) => {
  const { action, config } = await call;
  return { action, config: known(config) };
};
const listed = ({ listingId, listingName }: Listing) => ({ listingId, listingName });
const shown = (booking: Booking) => ({
  bookingCode: booking.bookingCode,
  listingId: booking.listingId,
  ...nights(booking),
});

function nights(booking: Booking): object {
  try {
    return stay(booking);
  } catch (error) {
    return { nights: (error as Error).message };
  }
}

/** Returns the result that `day` must have with this profile. */
function expected({ writes, dates, statuses, paging }: SandboxProfile) {
  const config = { isActive: true, endpoints: { bookings: hooks } };
  const both = { isActive: true, endpoints: { bookings: hooks, listings: hooks } };
  const off = { ...both, isActive: false };
  const showsWrites = [undefined, "config", "wrapped", "named"].includes(writes as string);
  // If `writes` lists several forms, each answer has a random one. Only some of them show the configuration.
  const mixed = typeof writes === "object";
  const written = (shown: object) => {
    if (mixed) return expect.toSatisfy((seen) => seen === "not shown" || isDeepStrictEqual(seen, shown));
    return showsWrites ? shown : "not shown";
  };
  const error = (name: string, status: number) => ({ name, status, named: "string" });
  const notFound = error("NotFoundError", 404);

  const dated = (booking: typeof first) => {
    const { bookingCode, listingId, checkIn, checkOut } = booking;
    const undated = dates === "null" || dates === "absent";
    return {
      bookingCode,
      listingId,
      ...(undated ? { nights: "checkIn: is absent" } : { checkIn, checkOut, nights: 3 }),
    };
  };
  const status = (name: string) => (statuses === "unlisted" ? `Newer${name}` : name);
  const call = (kind: string, name: string, previous: string | undefined, record: object) => ({
    type: `${kind}.${statuses === "unlisted" ? "unknown" : name}`,
    status: status(name),
    previousStatus: previous && status(previous),
    changed: true,
    ...record,
  });
  const loft = (listingId: number) => ({ listingId, listingName: `Loft ${listingId}` });
  return {
    configuring: {
      none: undefined,
      nothingToUpdate: notFound,
      created: written(config),
      twice: error("ConflictError", 409),
      refused: error("BadRequestError", 400),
      got: config,
      updated: written(both),
      off: written(off),
      isOff: off,
      ensured: { action: "updated", config: both },
      again: { action: "unchanged", config: both },
      left: both,
    },
    reading: {
      noListings: [],
      listings: [loft(11), loft(12)],
      listing: loft(11),
      booking: dated(second),
      missing: [notFound, notFound],
    },
    calls: [
      call("listing", "Published", undefined, loft(11)),
      call("booking", "Request", undefined, dated(first)),
      call("booking", "Confirmed", "Request", dated(first)),
      call("booking", "Cancelled", "Confirmed", dated(first)),
      call("booking", "Confirmed", undefined, dated(second)),
      call("booking", "Cancelled", "Confirmed", dated(second)),
    ],
    ending: {
      deleted: "not shown",
      gone: undefined,
      twice: "not shown",
      recreated: "created",
    },
    warnings:
      typeof paging === "object"
        ? expect.any(Array)
        : paging === "more"
          ? Array(2).fill(expect.stringContaining("hints at more pages"))
          : [],
  };
}

const aspects = Object.keys(profileForms) as (keyof AnswerForms)[];
const oneForm: SandboxProfile[] = aspects.flatMap((aspect) =>
  profileForms[aspect].map((form) => ({ [aspect]: form }) as SandboxProfile),
);

describe("a day is the same by", { timeout: 60_000 }, () => {
  it.each(Object.entries(sandboxProfiles))("profile %s, over HTTP", async (_, profile) => {
    expect(await day(profile, true)).toEqual(expected(profile));
  });

  it.each(oneForm)("%j alone", async (profile) => {
    expect(await day(profile, false)).toEqual(expected(profile));
  });

  it("sixty profiles put together at random", async () => {
    const random = randomOf(7);
    for (let count = 0; count < 60; count++) {
      const forms = aspects.map((aspect) => [aspect, random.pick<string | number>(profileForms[aspect])]);
      const profile: SandboxProfile = Object.fromEntries(forms);
      expect(await day(profile, false), JSON.stringify(profile)).toEqual(expected(profile));
    }
  });

  it("a profile that is switched in the middle of it", async () => {
    const sandbox = createProfiledSandbox({ seed: 1 });
    const client = new StayhookClient({
      baseUrl: "https://any.example",
      accessToken: "sandbox",
      fetch: sandbox.fetch,
    });
    await sandbox.bookings.create({ ...first, status: "Confirmed" });
    const seen = [];
    for (const name of Object.keys(sandboxProfiles) as (keyof typeof sandboxProfiles)[]) {
      sandbox.profile.set(name);
      seen.push((await client.bookings.get("B1")).listingId);
    }
    expect(new Set(seen)).toEqual(new Set([11]));
  });
});

it("the named profiles have every form between them", () => {
  for (const aspect of aspects) {
    const named = Object.values<SandboxProfile>(sandboxProfiles)
      .filter((profile) => typeof profile[aspect] !== "object")
      .map((profile) => profile[aspect] ?? profileForms[aspect][0]);
    expect(new Set<unknown>(named), aspect).toEqual(new Set<unknown>(profileForms[aspect]));
  }
});
