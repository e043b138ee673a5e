import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { keepRunning } from "../../examples/listing-mirror/daily.ts";
import {
  correct,
  createTables,
  type MirroredListing,
  mirroredListings,
  version,
  writeListing,
} from "../../examples/listing-mirror/mirror.ts";
import { installed } from "../package/support/consumer.ts";
import { between } from "./between.ts";
import { expectLines, expectRefusals, platform, subscribe } from "./support/drive.ts";
import { type Example, PATIENCE, startExample } from "./support/example.ts";

function newMirror(): DatabaseSync {
  const db = new DatabaseSync(":memory:");
  onTestFinished(() => db.close());
  createTables(db);
  return db;
}

const listing = (listingId: number, status: string, listingName = `Loft ${listingId}`) => ({
  listingId,
  status,
  listingName,
});

const none: ReadonlySet<number> = new Set();

/** Corrects the mirror with a list. No event is written while the list is fetched. */
function list(db: DatabaseSync, listings: ReturnType<typeof listing>[], now = 1000) {
  return correct(db, { listings, since: version(db), atWork: none }, now);
}

const rows = (db: DatabaseSync) =>
  mirroredListings(db).map(
    ({ listingId, status, missingSince }) => `${listingId} ${missingSince === null ? status : "missing"}`,
  );

describe("the mirror", () => {
  test("is filled by the list, and corrected by the next one", () => {
    const db = newMirror();
    const { changes, open } = list(db, [listing(1, "Published"), listing(2, "InReview")]);
    expect(open).toEqual([]);
    expect(changes).toHaveLength(2);
    expect(changes[0]).toEqual({
      before: undefined,
      after: {
        listingId: 1,
        listingName: "Loft 1",
        status: "Published",
        missingSince: null,
        changedAt: 1000,
      },
    });
    const next = list(db, [listing(1, "Hidden"), listing(2, "InReview"), listing(3, "Published")], 2000);
    expect(next.changes.map(({ after }) => after.listingId)).toEqual([1, 3]);
    expect(rows(db)).toEqual(["1 Hidden", "2 InReview", "3 Published"]);
    expect(mirroredListings(db).map(({ changedAt }) => changedAt)).toEqual([2000, 1000, 2000]);
    expect(
      list(db, [listing(1, "Hidden"), listing(2, "InReview", "New"), listing(3, "Published")]).changes,
    ).toHaveLength(1);
    expect(mirroredListings(db)[1]?.listingName).toBe("New");
  });

  test("is kept by events, twice the same ones too", () => {
    const db = newMirror();
    expect(writeListing(db, listing(1, "InReview"), 1000)).toMatchObject({ before: undefined });
    expect(writeListing(db, listing(1, "Published"), 2000)).toMatchObject({
      before: { status: "InReview" },
      after: { status: "Published", changedAt: 2000 },
    });
    expect(writeListing(db, listing(1, "Published"), 3000)).toBeUndefined();
    expect(mirroredListings(db)).toMatchObject([{ changedAt: 2000 }]);
  });

  test("marks what the list has no more, from the first time on, and takes the mark off when it is back", () => {
    const db = newMirror();
    list(db, [listing(1, "Published"), listing(2, "Published"), listing(3, "Hidden")]);
    expect(list(db, [listing(2, "Published")], 2000).changes).toHaveLength(2);
    expect(list(db, [listing(2, "Published")], 3000).changes).toEqual([]);
    expect(rows(db)).toEqual(["1 missing", "2 Published", "3 missing"]);
    expect(mirroredListings(db)[0]).toMatchObject({
      status: "Published",
      missingSince: 2000,
      changedAt: 2000,
    });
    expect(list(db, [listing(1, "Published"), listing(2, "Published")], 4000).changes).toHaveLength(1);
    writeListing(db, listing(3, "Published"));
    expect(rows(db)).toEqual(["1 Published", "2 Published", "3 Published"]);
  });

  test("takes names that are none, and a listing that is in the list twice", () => {
    const db = newMirror();
    const nameless = { listingId: 1, status: "Published", listingName: undefined };
    correct(db, { listings: [nameless, listing(1, "Hidden")], since: 0, atWork: none });
    expect(rows(db)).toEqual(["1 Hidden"]);
    correct(db, { listings: [nameless], since: version(db), atWork: none });
    expect(mirroredListings(db)[0]?.listingName).toBeNull();
  });

  test("does not let a list overwrite what an event has read since it was asked for", () => {
    const db = newMirror();
    list(db, [listing(1, "InReview"), listing(2, "InReview"), listing(3, "Hidden")]);
    const since = version(db);
    writeListing(db, listing(1, "Published"));
    writeListing(db, listing(3, "Hidden")); // unchanged, but read after the list: the listing still exists
    writeListing(db, listing(4, "Published"));
    const late = correct(db, {
      listings: [listing(1, "InReview"), listing(2, "Published")],
      since,
      atWork: none,
    });
    expect(rows(db)).toEqual(["1 Published", "2 Published", "3 Hidden", "4 Published"]);
    expect(late.open).toEqual([1, 3, 4]);
  });

  test("leaves what an event is about to write to the event, and asks again", () => {
    const db = newMirror();
    list(db, [listing(1, "InReview"), listing(2, "Hidden")]);
    const late = correct(db, {
      listings: [listing(1, "Published"), listing(3, "Published")],
      since: version(db),
      atWork: new Set([1, 2, 3]),
    });
    expect(rows(db)).toEqual(["1 InReview", "2 Hidden"]);
    expect(late.open).toEqual([1, 3, 2]);
  });

  test("keeps nothing of a list that fails in the middle", () => {
    const db = newMirror();
    list(db, [listing(1, "InReview")]);
    const broken = { ...listing(2, "Hidden"), status: undefined as unknown as string };
    expect(() => list(db, [listing(1, "Published"), broken])).toThrow();
    expect(rows(db)).toEqual(["1 InReview"]);
    list(db, [listing(1, "Published")]);
    expect(rows(db)).toEqual(["1 Published"]);
  });

  test("never goes back to an older state, in whatever order reads and writes come", {
    timeout: PATIENCE,
  }, () => {
    // The status of one listing counts up. One event and two lists read and write this status in random order.
    const step = fc.constantFrom("change", "event", "list0", "list1");
    fc.assert(
      fc.property(fc.array(step, { minLength: 10, maxLength: 80 }), (steps) => {
        const db = new DatabaseSync(":memory:");
        createTables(db);
        let now = 1;
        let event: { read: number } | { read?: undefined } | undefined;
        const lists: { since: number; read?: number; atWork?: ReadonlySet<number> }[] = [];
        const stored = () => Number(mirroredListings(db)[0]?.status ?? 0);
        for (const what of steps) {
          const before = stored();
          if (what === "change") now++;
          else if (what === "event") {
            if (!event) event = {};
            else if (event.read === undefined) event = { read: now };
            else {
              writeListing(db, listing(1, String(event.read)));
              event = undefined;
            }
          } else {
            const index = Number(what.at(-1));
            const one = lists[index];
            if (!one) lists[index] = { since: version(db) };
            else if (one.read === undefined) one.read = now;
            else if (!one.atWork) one.atWork = new Set(event ? [1] : []);
            else {
              const { since, read, atWork } = one;
              correct(db, { listings: [listing(1, String(read))], since, atWork });
              delete lists[index];
            }
          }
          expect(stored()).toBeGreaterThanOrEqual(before);
        }
        if (event?.read !== undefined) writeListing(db, listing(1, String(event.read)));
        list(db, [listing(1, String(now))]);
        expect(stored()).toBe(now);
        db.close();
      }),
      { numRuns: 150 },
    );
  });
});

describe("the daily list", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  const minute = 60_000;

  test("comes at once, then a day after each that has settled all, sooner after others", async () => {
    const error = vi.spyOn(console, "error").mockImplementation(() => {});
    onTestFinished(() => error.mockRestore());
    const answers: (boolean | Error)[] = [true, false, true, ...Array(9).fill(new Error("away")), true, true];
    const began = performance.now();
    const at: number[] = [];
    const stop = keepRunning(async () => {
      at.push((performance.now() - began) / minute);
      const answer = answers.shift() ?? true;
      if (answer instanceof Error) throw answer;
      return answer;
    });
    await vi.advanceTimersByTimeAsync(6 * 24 * 60 * minute);
    const day = 24 * 60;
    const waits = at.slice(1).map((time, index) => time - at[index]!);
    expect(waits.slice(0, 14).map((wait) => Number(wait.toFixed(3)))).toEqual([
      day,
      0.033,
      day,
      1,
      2,
      4,
      8,
      16,
      32,
      60,
      60,
      60,
      day,
      day,
    ]);
    expect(error).toHaveBeenCalledTimes(9);
    stop();
    const count = at.length;
    await vi.advanceTimersByTimeAsync(3 * day * minute);
    expect(at).toHaveLength(count);
  });

  test("does not go on when it was stopped in the middle", async () => {
    const { promise, resolve: end } = Promise.withResolvers<boolean>();
    const pass = vi.fn(() => promise);
    const stop = keepRunning(pass);
    stop();
    end(true);
    await vi.advanceTimersByTimeAsync(3 * 24 * 60 * minute);
    expect(pass).toHaveBeenCalledOnce();
  });
});

describe("the app", async () => {
  const project = await installed();
  const from = "listing-mirror";
  const start = (options: Omit<Parameters<typeof startExample>[0], "project" | "from">) =>
    startExample({ project, from, command: [process.execPath, "main.ts"], ...options });

  function table({ directory }: Example): MirroredListing[] {
    const db = new DatabaseSync(join(directory, "events.db"), { readOnly: true });
    try {
      return mirroredListings(db);
    } finally {
      db.close();
    }
  }

  test("has what was there before it, and what is delivered to it twice", {
    timeout: 2 * PATIENCE,
  }, async () => {
    const sandbox = await platform();
    const old = await sandbox.listings.create({ status: "Published" });
    const example = await start({ sandbox });
    await example.said("listed 1, corrected 1");
    await subscribe(sandbox, example);
    await expectRefusals(example);
    const { listingId } = await sandbox.listings.submit();
    await sandbox.listings.publish(listingId);
    await example.said(new RegExp(`^listing ${listingId} .* -> Published$`, "m"));
    await sandbox.bookings.instantBook();
    const { listingId: last } = await sandbox.listings.submit();
    await sandbox.listings.publish(last);
    await example.said(new RegExp(`^listing ${last} .* -> Published$`, "m"));
    await sandbox.settled();
    expect(sandbox.deliveries.map(({ status }) => status)).toEqual(Array(6).fill(200));
    expectLines(
      example,
      [old.listingId, listingId, last].map((id) => ["listing", id]),
    );
    const named = ({ listingId: id, listingName, status }: MirroredListing) => [id, listingName, status];
    const byId = <T extends { listingId: number }>(all: T[]) => all.sort((a, b) => a.listingId - b.listingId);
    expect(table(example).map(named)).toEqual(
      byId(sandbox.listings.list()).map((one) => [one.listingId, one.listingName, "Published"]),
    );
    expect(await example.stop()).toEqual([0, null]);
  });

  test("finds after a kill -9 what nobody has told, marks what is gone, and lets no old list win", {
    timeout: 2 * PATIENCE,
  }, async () => {
    const sandbox = await platform();
    const proxy = await between(sandbox);
    const env = { STAYHOOK_BASE_URL: proxy.url };
    const hidden = await sandbox.listings.create({ status: "Published" });
    const gone = await sandbox.listings.create({ status: "Published" });
    const raced = await sandbox.listings.submit();
    const first = await start({ sandbox, env });
    await first.said("listed 3, corrected 3");
    await first.kill();

    await sandbox.listings.hide(hidden.listingId); // the platform sends no event for this
    proxy.change(/\/listings$/, (all) =>
      (all as { listingId: number }[]).filter(({ listingId }) => listingId !== gone.listingId),
    );
    // Hold the list, which has the listing as InReview. Meanwhile an event publishes the listing.
    proxy.hold(/\/listings$/);
    const second = await start({ sandbox, env, directory: first.directory });
    await proxy.held(1);
    await subscribe(sandbox, second);
    await sandbox.listings.publish(raced.listingId);
    await second.said(`listing ${raced.listingId} (${raced.listingName}): InReview -> Published`);
    proxy.release();
    await second.said("listed 2, corrected 2");
    expect(second.output).toContain(
      `listing ${hidden.listingId} (${hidden.listingName}): Published -> Hidden`,
    );
    expect(second.output).toContain(
      `listing ${gone.listingId} (${gone.listingName}): Published -> MISSING in the list`,
    );
    const found = new Map(table(second).map((row) => [row.listingId, row]));
    expect(found.get(raced.listingId)?.status).toBe("Published");
    expect(found.get(hidden.listingId)?.status).toBe("Hidden");
    expect(found.get(gone.listingId)).toMatchObject({
      status: "Published",
      missingSince: expect.any(Number),
    });
    expect(await second.stop()).toEqual([0, null]);
  });

  test("lets no old event win over a list either", { timeout: 2 * PATIENCE }, async () => {
    const sandbox = await platform();
    const proxy = await between(sandbox);
    const env = { STAYHOOK_BASE_URL: proxy.url };
    const { listingId, listingName } = await sandbox.listings.submit();
    const first = await start({ sandbox, env });
    await first.said("listed 1, corrected 1");
    await subscribe(sandbox, first);
    // Hold the answer to an event's read, which has the listing as Published. Then the host hides the listing.
    proxy.hold(/\/listings\/\d+$/);
    await sandbox.listings.publish(listingId);
    await proxy.held(1);
    await sandbox.listings.hide(listingId);
    // Meanwhile another process on the same file reads the list.
    const second = await start({ sandbox, env, directory: first.directory });
    await second.said("listed 1, corrected 0");
    proxy.release();
    await first.said(`listing ${listingId} (${listingName}): InReview -> Published`);
    // An event was running while the second process read the list, so that process reads the list again.
    await second.said(`listing ${listingId} (${listingName}): Published -> Hidden`);
    expect(table(first)).toMatchObject([{ status: "Hidden" }]);
  });
});
