// Counts what one notification alone costs, from its request until the queue sleeps again.

import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import mysql from "mysql2/promise";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { createStays, hold } from "../../../src/stays/stays.ts";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { eventually } from "../../support/eventually.ts";
import { handlerOf, notificationOf } from "../../webhooks/support.ts";
import { describeEvery, type Kind, opened } from "./stores.ts";

/** The most calls of the driver for one notification. MySQL runs the statements that SQLite runs. */
const most: Partial<Record<Kind["name"], number>> = { PostgreSQL: 7, MySQL: 28, Redis: 3 };
/** The most calls if the booking gets four things at once: the plan, the callback and each thing have a claim and a settle. */
const mostOfThings: typeof most = { PostgreSQL: 40, MySQL: 130, Redis: 14 };

const things = createStays({
  want: () => ["one", "two", "three", "four"].map((name) => hold(name as "one")),
  apply: Object.fromEntries(
    ["one", "two", "three", "four"].map((name) => [name, { begin: () => {}, end: () => {} }]),
  ) as Record<"one", { begin(): void; end(): void }>,
});

describeEvery(
  ({ name }) => name in most,
  ({ name, create, url }) => {
    test.each([
      ["", most, undefined, 1],
      [" with four things", mostOfThings, things, 5],
    ] as const)("one notification alone%s takes few calls", async (_, most, stays, attempts) => {
      const calls = await countedCalls(name, url!);
      const store = opened(await create(), { pollInterval: 60_000 }) as EventStore;
      const { webhooks, platform, deliver, observed } = handlerOf({
        store,
        stays,
        on: { booking: () => {} },
      });
      onTestFinished(() => webhooks.close());
      webhooks.start();
      const taken: number[] = [];
      for (let n = 0; n < 4; n += 1) {
        // The store's own messages, and the first count of the backlog, belong to the first notification.
        await atRest(calls);
        const before = calls.length;
        platform.booking(`B${n}`, "Confirmed", {
          listingId: 1,
          checkIn: "2100-05-10",
          checkOut: "2100-05-13",
        });
        const { status } = await deliver(notificationOf({ bookingCode: `B${n}` }));
        expect(status).toBe(200);
        await eventually(() =>
          expect(observed.filter(({ kind }) => kind === "done")).toHaveLength(attempts * (n + 1)),
        );
        await atRest(calls);
        taken.push(calls.length - before);
      }
      // On a busy machine, calls that share a statement at other times may come one by one.
      expect(Math.min(...taken.slice(1)), calls.slice(-20).join("\n")).toBeLessThanOrEqual(most[name]!);
    });
  },
);

/** Resolves when no call has been made for some time. */
async function atRest(calls: readonly string[]): Promise<void> {
  for (let seen = -1; seen !== calls.length; await sleep(300)) seen = calls.length;
}

/** Records each call of the driver in this process. */
async function countedCalls(name: Kind["name"], url: string): Promise<string[]> {
  const calls: string[] = [];
  const record = <T extends object>(proto: T, method: keyof T, textOf: (given: never) => string): void => {
    const own = proto[method] as (...args: unknown[]) => unknown;
    proto[method] = function (this: unknown, ...args: unknown[]) {
      calls.push(textOf(args[0] as never).slice(0, 200));
      return own.apply(this, args);
    } as T[keyof T];
    onTestFinished(() => {
      proto[method] = own as T[keyof T];
    });
  };
  const textOf = (given: string | { text?: string; sql?: string }): string =>
    typeof given === "string" ? given : (given.text ?? given.sql ?? "");
  if (name === "PostgreSQL") record(pg.Client.prototype, "query", textOf);
  if (name === "Redis")
    record(Redis.prototype, "sendCommand", ({ name: command, args }: { name: string; args: unknown[] }) =>
      [command, ...args].join(" "),
    );
  if (name === "MySQL") {
    const pool = mysql.createPool({ uri: url });
    const connection = await pool.getConnection();
    let proto: object = connection;
    while (!Object.hasOwn(proto, "query")) proto = Object.getPrototypeOf(proto);
    connection.release();
    await pool.end();
    record(proto as mysql.PoolConnection, "query", textOf);
  }
  return calls;
}
