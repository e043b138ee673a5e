// When an event is tried next: what a reader of docs/how-it-works.md expects in some cases. A read takes 20 ms, and no wait
// varies by chance.
import { beforeEach, expect, test, vi } from "vitest";
import { type Answer, appOf } from "./lanes.support.ts";
import { advance, idsOf, SECOND, useFakeTime } from "./support.ts";

useFakeTime(new Date(Date.UTC(2026, 4, 1)));
beforeEach(() => {
  // Waits of `backoff` are then an eighth shorter: 4.4 s, 26 s, 105 s, 525 s.
  vi.spyOn(Math, "random").mockReturnValue(0.5);
});

/** `X` is the event in question. Other records are named by what the platform answers. */
const answers: Readonly<Record<string, Answer>> = {
  OK: 200,
  DENIED: 401,
  LIMITED: 429,
  ASKED: { retryAfter: 120 },
  FORGED: 404,
};

/** At a second, `<account>/<record>` is sent, so often. */
type Sent = readonly [second: number, record: string, count?: number];

test.each<{ what: string; x: Answer; sent: readonly Sent[]; reads: readonly number[] }>([
  {
    what: "that fails alone: as backoff says, 40 s at most",
    x: 503,
    sent: [[0, "a/X"]],
    reads: [0, 4.4, 30.7, 70.7, 110.7],
  },
  {
    what: "that fails while others are answered: from its second failure on it counts, and waits 2, 4, 8 s, then as backoff says",
    x: 503,
    sent: [[0, "a/X"], ...Array.from({ length: 60 }, (_, n) => [n + 0.5, "a/OK"] as const)],
    reads: [0, 4.4, 6.4, 10.4, 18.5],
  },
  {
    what: "in a pause of its lane: at the next try at the latest, alone for five",
    x: 503,
    sent: [
      [0, "a/DOWN", 4],
      [0, "a/X"],
    ],
    reads: [0, 1],
  },
  {
    what: "that arrives right after a pause began: a second after its begin",
    x: 503,
    sent: [
      [0, "a/DOWN", 5],
      [0.5, "a/X"],
    ],
    reads: [1],
  },
  {
    what: "that arrives later in a pause: at once",
    x: 200,
    sent: [
      [0, "a/DOWN", 5],
      [10, "a/X"],
    ],
    reads: [10],
  },
  {
    what: "of another account than the one with a 401: at once",
    x: 200,
    sent: [
      [0, "b/DENIED"],
      [0.5, "a/X"],
    ],
    reads: [0.5],
  },
  {
    what: "of an account with a 429, of its other kind: a second after it",
    x: 200,
    sent: [
      [0, "a/LIMITED"],
      [0.5, "a/listing:7"],
    ],
    reads: [1],
  },
  {
    what: "that arrives in a Retry-After: at its end",
    x: 200,
    sent: [
      [0, "a/ASKED"],
      [60, "a/X"],
    ],
    reads: [120],
  },
  {
    what: "of an account of which nothing failed, in a pause of everything: at the next try",
    x: 200,
    sent: [
      [0, "b/DOWN", 3],
      [0, "c/DOWN", 2],
      [0.5, "a/X"],
    ],
    reads: [1],
  },
  {
    what: "behind a read that hangs: beside it",
    x: 200,
    sent: [
      [0, "a/HANGS"],
      [0.5, "a/X"],
    ],
    reads: [0.5],
  },
  {
    what: "in a flood: before the forged ones that came earlier",
    x: 200,
    sent: [
      [0, "a/FORGED", 300],
      [2, "a/X"],
    ],
    reads: [2],
  },
])("an event is read $what", async ({ x, sent, reads }) => {
  const app = appOf((_, id) => {
    const name = id.replace(/^\w+:/, "").replace(/\d+$/, "");
    if (name === "X" || id === "listing:7") return x;
    return name === "HANGS" ? "hangs" : (answers[name] ?? 503);
  });
  app.queue.start();
  let count = 0;
  for (const [second, record, times = 1] of sent) {
    await app.until(second * SECOND);
    const [account = "", id = ""] = record.split("/");
    for (const _ of idsOf(times)) {
      count += 1;
      await app.send(account, id === "X" ? id : `${id}${count}`, id.includes(":") ? { ref: record } : {});
    }
  }
  await advance(Math.max(0, reads.at(-1)! + 1 - app.now() / SECOND) * SECOND);
  const own = app.reads.filter(({ id }) => id === "booking:X" || id === "listing:7");
  const seconds = own.map(({ at }) => Math.round(at / 100) / 10);
  expect(seconds.slice(0, reads.length)).toEqual(reads);
});
