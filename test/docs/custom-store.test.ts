import { stripTypeScriptTypes } from "node:module";
import type { DatabaseSync } from "node:sqlite";
import type { EventStore, Write } from "stayhook/store";
import { storeContract } from "stayhook/store/contract";
import { describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { extractFiles } from "./extract.ts";

type Edit = readonly [from: string, to: string];

/** Edits that put a mistake into the driver. `fails` is the case of the contract that must then fail. */
const mistakes: Record<string, { readonly edit: Edit; readonly fails: string }> = {
  "the transactions of one connection mix": {
    edit: ["last.then(() => inTransaction(steps()))", "inTransaction(steps())"],
    fails: "claim: concurrent claims never return the same event or two events of one record",
  },
  "changes are not counted": {
    edit: [
      "Number(statement.run(...step.params).changes)",
      "Number(statement.run(...step.params).changes >= 0)",
    ],
    fails: "add: `add` of a stored id returns `duplicate`, in every state of the event",
  },
  "the writes of `atomically` are left out": {
    edit: ["for (const write of step.writes) await write(db as never);", ""],
    fails: "writes: the functions in `writes` run once, in order, with the same transaction handle",
  },
};

const files = extractFiles();
const code = files.get("own-store.ts") ?? "";

describe("a mistake in the page's driver", () => {
  for (const [mistake, { edit, fails }] of Object.entries(mistakes)) {
    test(`is found: ${mistake}`, async () => {
      const [from, to] = edit;
      expect(code.split(from).length, from).toBe(2);
      const { ownStore } = await load(code.replace(from, () => to));
      const cases = storeContract(() => ownStore(":memory:"));
      const found = cases.find(({ name }) => name === fails);
      expect(found, fails).toBeDefined();
      await expect(found?.run()).rejects.toThrow();
    });
  }
});

test("the page's driver rolls back the writes of a callback that fails", async () => {
  const store = (await load(code)).ownStore(":memory:");
  const settle = async (...writes: ((db: DatabaseSync) => void)[]) => {
    const [claim] = await store.claim({ limit: 1, leaseDuration: 0 });
    const done = { state: "done", type: "booking.Confirmed", entry: { duration: 1 } } as const;
    return store.settle(claim!, { ...done, writes: writes as Write<unknown>[] });
  };
  await store.add(newEvent("1"));
  const insert = (db: DatabaseSync) =>
    void db.exec("CREATE TABLE IF NOT EXISTS own (a); INSERT INTO own VALUES (1)");
  const fail = () => {
    throw new Error("the callback's own");
  };
  await expect(settle(insert, fail)).rejects.toThrow("the callback's own");
  const rows: unknown[] = [];
  const read = (db: DatabaseSync) => void rows.push(...db.prepare("SELECT * FROM own").all());
  await eventually(() => settle(insert, read));
  expect(rows).toEqual([{ a: 1 }]);
  await store.close();
});

function newEvent(eventId: string) {
  const source = "webhook" as const;
  return { eventId, ref: null, source, topic: null, timestamp: "", notification: null };
}

/** Loads a module from a data URL. Such a module cannot import `stayhook/store` by name, so it uses a global. */
async function load(source: string) {
  Object.assign(globalThis, { storeModule: await import("stayhook/store") });
  const script = stripTypeScriptTypes(source).replace(
    /import (\{[^}]*\}) from "stayhook\/store";/,
    (_, names: string) => `const ${names} = globalThis.storeModule;`,
  );
  return (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(script)}`)) as {
    readonly ownStore: (path: string) => EventStore<unknown>;
  };
}
