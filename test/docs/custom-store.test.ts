import { stripTypeScriptTypes } from "node:module";
import type { DatabaseSync } from "node:sqlite";
import type { EventStore, Write } from "stayhook/store";
import { storeContract } from "stayhook/store/contract";
import { describe, expect, test, vi } from "vitest";
import { checkAgainstModel } from "../stores/model-check.ts";
import { extractFiles } from "./extract.ts";
import { MongoClient } from "./mongodb.ts";

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
const mongoCode = files.get("mongo-store.ts") ?? "";

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
  await vi.waitFor(() => settle(insert, read));
  expect(rows).toEqual([{ a: 1 }]);
  await store.close();
});

type MongoStore = (client: MongoClient, database: string) => EventStore<unknown>;

/** The contract of the page's store for MongoDB, on a stand-in, also with a restart and with two processes. */
function mongoCases(mongoStore: MongoStore) {
  const clients = new Map<EventStore<unknown>, MongoClient>();
  const open = (client: MongoClient) => {
    const store = mongoStore(client, "test");
    clients.set(store, client);
    return store;
  };
  const another = (store: EventStore<unknown>) => open(clients.get(store)!);
  const reopen = async (store: EventStore<unknown>) => {
    await store.close();
    return another(store);
  };
  return storeContract(() => open(new MongoClient()), { reopen, another });
}

describe("the page's store for MongoDB keeps the contract", async () => {
  expect(mongoCode.split("\n").length).toBeLessThan(300);
  const { mongoStore } = await load(mongoCode);
  for (const { name, run } of mongoCases(mongoStore)) test.concurrent(name, run);
});

test("the page's store for MongoDB gives the same results as the memory store", async () => {
  const { mongoStore } = await load(mongoCode);
  await checkAgainstModel({ create: () => mongoStore(new MongoClient(), "test"), numRuns: 20 });
}, 60_000);

const mongoMistakes: typeof mistakes = {
  "a write has no condition": {
    edit: ['const found = { _id: key, version: expected ?? "" };', "const found = { _id: key };"],
    fails: "sharing: an event that one process adds during a claim by the other is claimed",
  },
  "a new document replaces a known one": {
    edit: ["await documents.insertOne(", "await documents.replaceOne({ _id: key },"],
    fails: "add: a new event is stored, and can be claimed at once",
  },
  "an index has no order": {
    edit: [".sort({ [by]: 1 })", ""],
    fails: "order: the record that is due longest is claimed first",
  },
  "the change stream is not read": {
    edit: ['changes.on("change", wake);', ""],
    fails: "sharing: an event that one process adds wakes the subscriber of the other process",
  },
};

describe("a mistake in the page's store for MongoDB", () => {
  for (const [mistake, { edit, fails }] of Object.entries(mongoMistakes)) {
    test.concurrent(`is found: ${mistake}`, async () => {
      const [from, to] = edit;
      expect(mongoCode.split(from).length, from).toBe(2);
      const { mongoStore } = await load(mongoCode.replace(from, () => to));
      const found = mongoCases(mongoStore).find(({ name }) => name === fails);
      expect(found, fails).toBeDefined();
      await expect(found?.run()).rejects.toThrow();
    }, 20_000);
  }
});

describe("a claim of the page's store for MongoDB that got no answer", () => {
  for (const [what, isLate] of [
    ["and was written", false],
    ["and arrives late", true],
  ] as const) {
    test(what, async () => {
      const client = new MongoClient();
      const { mongoStore } = await load(mongoCode);
      const store = mongoStore(client, "test");
      await store.add(newEvent("1"));
      const send = client.withSession.bind(client);
      let late: (() => Promise<unknown>) | undefined;
      client.withSession = async (run) => {
        client.withSession = send;
        if (isLate) late = () => send(run);
        else await send(run);
        throw new Error("the connection was lost");
      };
      const claim = async () => store.claim({ limit: 1, leaseDuration: 60_000 });
      await expect(claim()).rejects.toThrow("the connection was lost");
      expect(await store.nextDue()).toBe(0);
      if (isLate) await expect(late!()).rejects.toThrow();
      expect(await claim()).toMatchObject([{ eventId: "1", attempts: 1 }]);
      await store.close();
    });
  }
});

test("a write of the page's store for MongoDB that always fails ends with an error that says what to do", async () => {
  const { mongoStore } = await load(mongoCode.replace("if (document", "throw new Conflict();\nif (document"));
  const adding = mongoStore(new MongoClient(), "test").add({ ...newEvent("1"), ref: "booking:A" });
  await expect(adding).rejects.toThrow("Other processes changed booking:A during each of 100 tries.");
}, 20_000);

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
    readonly mongoStore: MongoStore;
  };
}
