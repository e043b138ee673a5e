import { afterEach, describe, expect, it, vi } from "vitest";
import { InvalidArgumentError } from "../../src/errors.ts";
import { createSandbox, type Sandbox } from "../../src/testing/index.ts";

afterEach(() => void vi.useRealTimers());

/** Returns the error of a call that must be refused. */
async function refusal(promise: Promise<unknown>): Promise<InvalidArgumentError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(InvalidArgumentError);
  return error as InvalidArgumentError;
}

describe.each<["bookings" | "listings", readonly string[], Record<string, Record<string, string>>]>([
  [
    "bookings",
    ["approve", "decline", "cancel"],
    {
      Initiated: { cancel: "Cancelled" },
      Request: { approve: "Confirmed", decline: "Declined", cancel: "Cancelled" },
      Confirmed: { cancel: "Cancelled" },
      Declined: {},
      OnHold: { cancel: "Cancelled" },
    },
  ],
  [
    "listings",
    ["publish", "hide"],
    {
      InReview: { publish: "Published", hide: "Hidden" },
      Published: { hide: "Hidden" },
      Hidden: { publish: "Published" },
      Archived: {},
    },
  ],
])("%s", (kind, moves, table) => {
  it.each(Object.entries(table))("in %s can change by %j only", async (status, possible) => {
    for (const move of moves) {
      // The two kinds have different methods and types of ids.
      const records = createSandbox()[kind] as never as Record<
        string,
        (arg: unknown) => Promise<{ status: string }>
      >;
      const id = kind === "bookings" ? "B1" : 7;
      await records.create!({ status, bookingCode: "B1", listingId: 7 });
      const moved = records[move]!(id);
      if (possible[move]) expect((await moved).status).toBe(possible[move]);
      else {
        const { message } = await refusal(moved);
        expect(message).toContain(`cannot ${move} ${kind.slice(0, -1)} ${id}, which is ${status}`);
        for (const name of Object.keys(possible)) expect(message).toContain(name);
      }
      expect(records.get!(id)).toMatchObject({ status: possible[move] ?? status });
    }
  });
});

describe("bookings", () => {
  it("that do not exist cannot change", async () => {
    const { bookings, listings } = createSandbox();
    expect((await refusal(bookings.cancel("B1"))).message).toBe("bookingCode: there is no booking B1");
    expect((await refusal(listings.hide(2))).message).toBe("listingId: there is no listing 2");
    expect(bookings.get("B1")).toBeUndefined();
  });

  it("can be altered, but not their code and status", async () => {
    const { bookings } = createSandbox();
    const before = await bookings.instantBook({ bookingCode: "B1", note: "late" });
    const fields = { checkIn: "2030-07-01", checkOut: "2030-07-09", listingId: 5, guests: 2 };
    const altered = await bookings.alter("B1", { ...fields, note: undefined });
    expect(altered).toEqual({ ...before, ...fields, status: "Confirmed" });
    expect(bookings.get("B1")).toEqual(altered);
    expect((await refusal(bookings.alter("B2", {}))).message).toBe("bookingCode: there is no booking B2");
    for (const name of ["status", "bookingCode"])
      expect((await refusal(bookings.alter("B1", { [name]: "Cancelled" }))).issues).toMatchObject([
        { path: [name] },
      ]);
    expect(bookings.list()).toEqual([altered]);
  });

  it("get unique codes, plausible dates and a published listing", async () => {
    const { bookings, listings, seed } = createSandbox();
    await listings.submit();
    const { listingId } = await listings.create({ status: "Published" });
    await listings.create({ status: "Hidden" });
    for (let count = 0; count < 200; count++) await bookings.request();
    const all = bookings.list();
    expect(new Set(all.map((booking) => booking.bookingCode)).size).toBe(200);
    for (const booking of all) {
      expect(booking.bookingCode, `seed ${seed}`).toMatch(/^[A-Z2-9]{8}$/);
      expect(booking.listingId).toBe(listingId);
      expect(booking.checkIn).toMatch(/^\d{4}-\d\d-\d\d$/);
      expect(booking.checkOut).toMatch(/^\d{4}-\d\d-\d\d$/);
      const nights = (Date.parse(booking.checkOut) - Date.parse(booking.checkIn)) / 86_400_000;
      expect(nights).toBeGreaterThanOrEqual(1);
      expect(nights).toBeLessThanOrEqual(7);
      expect(Date.parse(booking.checkIn)).toBeGreaterThan(Date.now());
    }
  });

  it("get any listing if none is published, and a random id if there are no listings", async () => {
    const { bookings, listings } = createSandbox();
    expect(Number.isInteger((await bookings.request()).listingId)).toBe(true);
    const { listingId } = await listings.submit();
    expect((await bookings.request()).listingId).toBe(listingId);
  });

  it("keep the given fields as JSON, and get the missing date", async () => {
    const { bookings } = createSandbox();
    const at = new Date("2030-01-01T00:00:00Z");
    const booking = await bookings.request({
      bookingCode: "B1",
      listingId: 5,
      checkIn: "2030-02-27",
      note: null,
      at,
      left: undefined,
    });
    expect(booking).toMatchObject({ bookingCode: "B1", listingId: 5, checkIn: "2030-02-27", note: null });
    expect(booking.status).toBe("Request");
    expect(booking.at).toBe(at.toISOString());
    expect(booking).not.toHaveProperty("left");
    expect(booking.checkOut > "2030-02-27").toBe(true);
    const { checkIn } = await bookings.request({ checkOut: "2020-03-01" });
    expect(checkIn < "2020-03-01" && checkIn >= "2020-02-23", checkIn).toBe(true);
    const odd = await bookings.create({ status: "Request", checkIn: "someday", checkOut: "later" });
    expect(odd).toMatchObject({ checkIn: "someday", checkOut: "later" });
  });

  it("refuse a departure before the arrival, and take both on one day", async () => {
    const { bookings } = createSandbox();
    const reversed = { checkIn: "2030-07-05", checkOut: "2030-07-04" };
    const { bookingCode } = await bookings.create({ status: "Request", ...reversed });
    const oneDay = { checkIn: "2030-07-04", checkOut: "2030-07-04" };
    for (const change of [
      bookings.request,
      bookings.instantBook,
      (fields: { checkIn: string }) => bookings.alter(bookingCode, fields),
    ]) {
      expect((await refusal(change(reversed))).message).toBe(
        "checkOut: must not be before checkIn: 2030-07-04 is before 2030-07-05",
      );
      expect(await change(oneDay)).toMatchObject(oneDay);
    }
    expect(bookings.list()).toHaveLength(3);
  });

  it("are returned as copies", async () => {
    const { bookings } = createSandbox();
    const nested = { count: 1 };
    const booking = await bookings.request({ bookingCode: "B1", nested });
    nested.count = 2;
    (booking.nested as { count: number }).count = 3;
    (bookings.get("B1")?.nested as { count: number }).count = 4;
    (bookings.list()[0]?.nested as { count: number }).count = 5;
    ((await bookings.approve("B1")).nested as { count: number }).count = 6;
    expect(bookings.get("B1")?.nested).toEqual({ count: 1 });
  });

  it.each<[string, (sandbox: Sandbox) => Promise<unknown>, (string | number)[]]>([
    ["a code that is taken", ({ bookings }) => bookings.request({ bookingCode: "TAKEN" }), ["bookingCode"]],
    ["an empty code", ({ bookings }) => bookings.request({ bookingCode: "" }), ["bookingCode"]],
    ["a status in request", ({ bookings }) => bookings.request({ status: "Confirmed" }), ["status"]],
    ["a status in instantBook", ({ bookings }) => bookings.instantBook({ status: "Request" }), ["status"]],
    ["no status in create", ({ bookings }) => bookings.create({} as never), ["status"]],
    ["an empty status", ({ bookings }) => bookings.create({ status: "" }), ["status"]],
    ["no fields but null", ({ bookings }) => bookings.request(null as never), []],
    ["what is no JSON", ({ bookings }) => bookings.request({ size: 1n }), []],
    ["a listing's id that is taken", ({ listings }) => listings.submit({ listingId: 1 }), ["listingId"]],
    ["a fraction as id", ({ listings }) => listings.submit({ listingId: 1.5 }), ["listingId"]],
    ["a text as id", ({ listings }) => listings.submit({ listingId: "2" as never }), ["listingId"]],
    ["a number as name", ({ listings }) => listings.submit({ listingName: 3 as never }), ["listingName"]],
    ["a status in submit", ({ listings }) => listings.submit({ status: "Published" }), ["status"]],
    ["no status of a listing", ({ listings }) => listings.create({} as never), ["status"]],
  ])("refuse %s", async (_, act, path) => {
    const sandbox = createSandbox();
    await sandbox.listings.submit({ listingId: 1 });
    await sandbox.bookings.request({ bookingCode: "TAKEN" });
    expect((await refusal(act(sandbox))).issues[0]?.path).toEqual(path);
    expect([...sandbox.bookings.list(), ...sandbox.listings.list()]).toHaveLength(2);
  });
});

it("listings start in InReview, with unique ids and names", async () => {
  const { listings } = createSandbox();
  const one = await listings.submit();
  const other = await listings.submit();
  expect(one).toMatchObject({ status: "InReview", listingName: expect.stringMatching(/\w+ \w+/) });
  expect(Number.isSafeInteger(one.listingId)).toBe(true);
  expect(other.listingId).not.toBe(one.listingId);
  expect(listings.list()).toEqual([one, other]);
});

describe("a seed", () => {
  const play = async (seed: number | undefined) => {
    vi.useFakeTimers({ now: Date.parse("2030-01-01") });
    const sandbox = createSandbox({ seed });
    for (let count = 0; count < 3; count++) await sandbox.listings.submit();
    for (let count = 0; count < 10; count++) await sandbox.bookings.request();
    return { seed: sandbox.seed, records: [...sandbox.listings.list(), ...sandbox.bookings.list()] };
  };

  it("repeats the records, and another seed does not", async () => {
    const { records } = await play(1);
    expect((await play(1)).records).toEqual(records);
    expect((await play(2)).records).not.toEqual(records);
  });

  it("is random by default, and sandbox.seed repeats a run", async () => {
    const first = await play(undefined);
    expect((await play(undefined)).seed).not.toBe(first.seed);
    expect((await play(first.seed)).records).toEqual(first.records);
  });
});
