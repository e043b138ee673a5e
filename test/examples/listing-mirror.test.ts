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
import { between } from "./support/between.ts";
import { expectLines, expectRefusals, platform, subscribe } from "./support/drive.ts";
import { type Example, startExample } from "./support/example.ts";

describe("the mirror", () => {
  const listing = (listingId: number, status: string) => ({
    listingId,
    status,
    listingName: `Loft ${listingId}`,
  });
  const newMirror = () => {
    const db = new DatabaseSync(":memory:");
    createTables(db);
    return db;
  };
  const rows = (db: DatabaseSync) =>
    mirroredListings(db).map(
      ({ listingId, status, missingSince: since }) =>
        `${listingId} ${since === null ? status : `missing ${since}`}`,
    );
  /** Corrects the mirror with a list. No event is written while the list is fetched. */
  const list = (db: DatabaseSync, listings: ReturnType<typeof listing>[], now = 1000) =>
    correct(db, { listings, since: version(db), atWork: new Set() }, now).changes.map(
      ({ after }) => after.listingId,
    );

  test("is written by events, and corrected by lists, which mark what they no longer have", () => {
    const db = newMirror();
    expect(list(db, [listing(1, "Published"), listing(2, "InReview")])).toEqual([1, 2]);
    expect(list(db, [listing(2, "InReview"), listing(3, "Hidden")], 2000)).toEqual([3, 1]);
    expect(list(db, [listing(2, "InReview"), listing(3, "Hidden")], 3000)).toEqual([]);
    expect(rows(db)).toEqual(["1 missing 2000", "2 InReview", "3 Hidden"]);
    expect(writeListing(db, listing(2, "Published"), 4000)).toMatchObject({ before: { status: "InReview" } });
    expect(writeListing(db, listing(2, "Published"), 5000)).toBeUndefined();
    expect(mirroredListings(db)[1]).toMatchObject({ changedAt: 4000 });
    writeListing(db, listing(1, "Published"));
    const nameless = { ...listing(2, "Hidden"), listingName: undefined as never };
    expect(list(db, [listing(1, "Published"), nameless, listing(3, "Hidden")])).toEqual([2]);
    expect(mirroredListings(db)[1]).toMatchObject({ status: "Hidden", listingName: null });
    // An empty list counts only if it is certain.
    expect(list(db, [])).toEqual([]);
    const sure = { listings: [], since: version(db), atWork: new Set<number>(), mayBeEmpty: true };
    expect(correct(newMirror(), sure).changes).toEqual([]);
    // Nothing is kept of a list that fails in the middle.
    expect(() => list(db, [listing(1, "Hidden"), listing(4, undefined as never)])).toThrow();
    expect(rows(db)).toEqual(["1 Published", "2 Hidden", "3 Hidden"]);
  });

  test("leaves a listing to the event that has read it since, or is about to write it", () => {
    const db = newMirror();
    list(db, [listing(1, "InReview"), listing(2, "InReview"), listing(3, "Hidden")]);
    const since = version(db);
    writeListing(db, listing(1, "Published"));
    writeListing(db, listing(3, "Hidden")); // unchanged, but read after the list: the listing still exists
    const listings = [listing(1, "InReview"), listing(2, "Published")];
    expect(correct(db, { listings, since, atWork: new Set([2]) }).open).toEqual([1, 2, 3]);
    expect(rows(db)).toEqual(["1 Published", "2 InReview", "3 Hidden"]);
  });

  test("never goes back to an older state, in whatever order reads and writes come", () => {
    // The status of one listing counts up. One event and two lists read and write this status in random order.
    const step = fc.constantFrom("change", "event", "list0", "list1");
    fc.assert(
      fc.property(fc.array(step, { minLength: 10, maxLength: 80 }), (steps) => {
        const db = newMirror();
        let now = 1;
        let event: { read?: number } | undefined;
        const lists: { since: number; read?: number; atWork?: ReadonlySet<number> }[] = [];
        const stored = () => Number(mirroredListings(db)[0]?.status ?? 0);
        for (const what of steps) {
          const before = stored();
          const one = lists[Number(what.at(-1))];
          if (what === "change") now++;
          else if (what === "event") {
            if (!event) event = {};
            else if (event.read === undefined) event.read = now;
            else {
              writeListing(db, listing(1, String(event.read)));
              event = undefined;
            }
          } else if (!one) lists[Number(what.at(-1))] = { since: version(db) };
          else if (one.read === undefined) one.read = now;
          else if (!one.atWork) one.atWork = new Set(event ? [1] : []);
          else {
            const { since, read, atWork } = one;
            correct(db, { listings: [listing(1, String(read))], since, atWork });
            delete lists[Number(what.at(-1))];
          }
          expect(stored()).toBeGreaterThanOrEqual(before);
        }
        if (event?.read !== undefined) writeListing(db, listing(1, String(event.read)));
        list(db, [listing(1, String(now))]);
        expect(stored()).toBe(now);
        db.close();
      }),
      { numRuns: 100 },
    );
  });
});

describe("the daily list", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  const day = 24 * 60 * 60_000;

  test("is read at once, a day after each complete pass, and sooner after others, until it is stopped", async () => {
    const error = vi.spyOn(console, "error").mockImplementation(() => {});
    onTestFinished(() => error.mockRestore());
    const answers = [true, false, true, ...Array<Error>(8).fill(new Error("away")), true, true];
    const at: number[] = [];
    const { promise, resolve: end } = Promise.withResolvers<boolean>();
    const stop = keepRunning(async () => {
      at.push(Date.now());
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      return answer ?? promise;
    });
    await vi.advanceTimersByTimeAsync(6 * day);
    const minutes = at.slice(1).map((time, index) => (time - at[index]!) / 60_000);
    const whole = 24 * 60;
    expect(minutes).toEqual([whole, 2 / 60, whole, 1, 2, 4, 8, 16, 32, 60, 60, whole, whole]);
    expect(error).toHaveBeenCalledTimes(8);
    // Stop during a pass.
    stop();
    end(true);
    await vi.advanceTimersByTimeAsync(3 * day);
    expect(at).toHaveLength(14);
  });
});

const project = await installed();
const start = (options: Omit<Parameters<typeof startExample>[0], "project" | "from">) =>
  startExample({ project, from: "listing-mirror", command: [process.execPath, "main.ts"], ...options });

function table({ directory }: Example): Map<number, MirroredListing> {
  const db = new DatabaseSync(join(directory, "events.db"), { readOnly: true });
  const rows = mirroredListings(db);
  db.close();
  return new Map(rows.map((row) => [row.listingId, row]));
}

test("has older listings and duplicate deliveries, finds after a kill -9 what nobody has told, and lets no old list win", async () => {
  const sandbox = await platform();
  const proxy = await between(sandbox);
  const env = { STAYHOOK_BASE_URL: proxy.url };
  const hidden = await sandbox.listings.create({ status: "Published" });
  const gone = await sandbox.listings.create({ status: "Published" });
  const raced = await sandbox.listings.submit();
  const first = await start({ sandbox, env });
  await first.said("listed 3, corrected 3");
  await subscribe(sandbox, first);
  await expectRefusals(first);
  const { listingId: told } = await sandbox.listings.submit();
  await sandbox.listings.publish(told);
  await first.said(new RegExp(`^listing ${told} .* -> Published$`, "m"));
  await sandbox.settled();
  expect(sandbox.deliveries.map(({ status }) => status)).toEqual([200, 200]);
  expectLines(first, [["listing", told]]);
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
  await second.said("listed 3, corrected 2");
  const lineOf = (one: typeof gone) => `listing ${one.listingId} (${one.listingName}): Published -> `;
  expect(second.output).toContain(`${lineOf(hidden)}Hidden`);
  expect(second.output).toContain(`${lineOf(gone)}MISSING in the list`);
  const found = table(second);
  expect([raced, hidden].map(({ listingId }) => found.get(listingId)?.status)).toEqual([
    "Published",
    "Hidden",
  ]);
  const missingSince = expect.any(Number);
  expect(found.get(gone.listingId)).toMatchObject({ status: "Published", missingSince });
  expect(await second.stop()).toEqual([0, null]);
});

test("believes an empty list when it has been empty for a day", async () => {
  const sandbox = await platform();
  const proxy = await between(sandbox);
  const env = { STAYHOOK_BASE_URL: proxy.url };
  const { listingId } = await sandbox.listings.create({ status: "Published" });
  const first = await start({ sandbox, env });
  await first.said("listed 1, corrected 1");
  await first.stop();
  proxy.change(/\/listings$/, () => []);
  // Each minute of this process lasts a second, and so does its hour: the waits are short, and its clock is fast.
  const fast = `const now = Date.now, start = now(), wait = setTimeout;
    Date.now = () => start + (now() - start) * 36000;
    globalThis.setTimeout = (run, ms, ...rest) => wait(run, Math.min(ms, 200), ...rest);`;
  const command = [
    process.execPath,
    "--import",
    `data:text/javascript,${encodeURIComponent(fast)}`,
    "main.ts",
  ];
  const second = await start({ sandbox, env, directory: first.directory, command });
  await second.said("The list is empty, although the table has 1 listings.");
  expect(table(second).get(listingId)).toMatchObject({ missingSince: null });
  await second.said("MISSING in the list");
});

test("lets no old event win over a list", async () => {
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
  expect(table(first).get(listingId)?.status).toBe("Hidden");
});
