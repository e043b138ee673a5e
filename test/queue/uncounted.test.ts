// Attempts that do not count: in an outage of one record, after a longer wait, and in a flood.
import { describe, expect, test } from "vitest";
import { audited, type Platform, unauthorized } from "./played.support.ts";
import {
  advance,
  callbackFailed,
  done,
  eventOf,
  HOUR,
  idsOf,
  MINUTE,
  outOfReach,
  refused,
  SECOND,
  sleep,
  useFakeTime,
} from "./support.ts";

useFakeTime(new Date(Date.UTC(2026, 4, 1)));

describe("1: a failure that does not count", () => {
  test("is tried every 40 s at most often, while others are answered between: one record answers 401 for an hour", async () => {
    const app = audited(async (_, __, code) => {
      await sleep(20);
      return code === "B1" ? unauthorized : done;
    });
    await app.send("B1");
    for (let n = 0; n < 600; n += 1) {
      await app.send(`O${n}`);
      await advance(SECOND);
    }
    // 5 s, 30 s, 40 s, 40 s, ... Today one read a second, and the whole account pauses each time.
    const paused = app.observed.filter(({ kind }) => kind === "paused").length;
    expect({ reads: app.of("B1").length, paused }).toEqual({ reads: 17, paused: 17 });
  });

  test("waits for its own Retry-After although another lane's gate is open", async () => {
    const app = audited((at, _, code) => (code === "B1" && at === 0 ? outOfReach(60 * SECOND) : done));
    await app.send("B1");
    await app.send("7", "7", "listing");
    await advance(5 * MINUTE);
    expect(app.of("B1")).toEqual([0, 60 * SECOND]);
  });

  test("keeps a longer Retry-After than that of the try", async () => {
    // The try begins at 1 s. At 1.5 s, a slow read is answered 429 with 300 s. At 2 s, the try is answered 401.
    const app = audited(async (at, _, code) => {
      if (code === "SLOW" && at < 1) {
        await sleep(1500);
        return outOfReach(300 * SECOND);
      }
      if (at > 60 * SECOND) return done;
      if (at > 500) await sleep(1000);
      return unauthorized;
    });
    await app.send("SLOW");
    await app.send("B1");
    await advance(100);
    await advance(10 * MINUTE);
    const early = app.reads.filter(({ at }) => at > 2 * SECOND && at < 300 * SECOND);
    expect(early).toEqual([]);
  });

  test("keeps a Retry-After that was asked for after the answered read began", async () => {
    // The try begins at 1 s and is answered at 2 s. Between, a slow read is answered 429 with 300 s.
    const app = audited(async (at, _, code) => {
      if (code === "SLOW" && at < 1) {
        await sleep(1500);
        return outOfReach(300 * SECOND);
      }
      if (at < 500) return unauthorized;
      await sleep(1000);
      return done;
    });
    await app.send("SLOW");
    await app.send("B1");
    await advance(2 * SECOND + 100);
    await app.send("B2");
    await advance(10 * SECOND);
    expect(app.of("B2")).toEqual([]);
  });
});

describe("2: a failure that counts, or of a callback, behind a gate", () => {
  test("is due no earlier than told", async () => {
    const app = audited(async (at, _id, code) => {
      if (code === "C" && at < SECOND) {
        await sleep(SECOND);
        return callbackFailed;
      }
      return code === "B1" && at < 2 * SECOND ? outOfReach(600 * SECOND) : done;
    });
    await app.send("C");
    await app.send("B1");
    await advance(HOUR);
    expect(app.failedOf("C")).toEqual([599 * SECOND]);
    expect(app.of("C")).toEqual([0, 600 * SECOND]);
  });
});

describe("3: a flood after a short outage", () => {
  /** Sends 15 forged codes, one each 1.1 s, which all are read. */
  async function after(outage: number) {
    const app = audited((at) => (at < outage ? outOfReach() : refused));
    for (const id of idsOf(15, "F")) {
      await app.send(id);
      await advance(1100);
    }
    await advance(MINUTE);
    return app;
  }

  test("begins without an outage", async () => {
    const app = await after(0);
    expect(app.logged.some((line) => line.includes("at most 80"))).toBe(true);
  });

  test("begins although an outage came first", async () => {
    const app = await after(20 * SECOND);
    expect(app.logged.some((line) => line.includes("at most 80"))).toBe(true);
  });
});

describe("4: the first refusal in a flood", () => {
  test("waits 5 s, also after an outage of a minute", async () => {
    const app = audited((at) => (at > SECOND && at < 70 * SECOND ? outOfReach() : refused));
    for (const id of idsOf(12, "F")) await app.send(id);
    await app.until(2 * SECOND);
    await app.send("G");
    await app.until(4 * MINUTE);
    const first = app.observed.find(
      (each) => each.kind === "failed" && each.eventId === "G" && each.reason === "not-found",
    );
    expect(first).toMatchObject({ retryIn: 5 * SECOND });
  });
});

describe("5: in a flood of 100 forged codes a second", () => {
  /** Sends forged codes for some seconds. B is known. */
  async function flooded(
    seconds: number,
    work: Platform,
    beside: (app: ReturnType<typeof audited>) => Promise<void>,
  ) {
    const app = audited(async (at, id, code, context) => {
      await sleep(20);
      return code.startsWith("F") ? refused : work(at, id, code, context);
    });
    await app.send("known", "B");
    await app.until(SECOND);
    for (let n = 0; n < seconds * 100; n += 1) {
      await app.send(`F${n}`);
      await advance(10);
      if (n === 300) await beside(app);
    }
    return app;
  }

  test("the next event of a known record is read at once", async () => {
    const app = await flooded(
      15,
      () => done,
      (it) => it.send("E", "B"),
    );
    expect(app.of("E")[0]).toBeLessThan(5 * SECOND);
  });

  test.each([
    { what: "whose callback threw", failure: callbackFailed },
    { what: "that was refused once", failure: refused },
  ])("the retry of a known record $what comes when it was told", async ({ failure }) => {
    let isFirst = true;
    const app = await flooded(
      15,
      (_, id) => {
        if (id !== "E" || !isFirst) return done;
        isFirst = false;
        return failure;
      },
      (it) => it.send("E", "B"),
    );
    const [first, second = Number.POSITIVE_INFINITY] = app.of("E");
    expect(second - first!).toBeLessThan(7 * SECOND);
  });

  test("the timer of a known record fires within seconds", async () => {
    const app = await flooded(
      15,
      () => done,
      async (it) => {
        await it.store.add(eventOf("T", "booking:B"), { dueIn: 2 * SECOND });
      },
    );
    expect(app.of("T")[0] ?? Number.POSITIVE_INFINITY).toBeLessThan(7 * SECOND);
  });
});
