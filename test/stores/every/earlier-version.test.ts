import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { cli } from "../../cli/support.ts";
import { eventOf } from "../event.ts";
import { describeEvery, type Kind, type Place } from "./stores.ts";

/** Makes what stayhook 1.2 left: the parts that tell its version, and an event. */
async function leaveBehind({ place, sql }: Place): Promise<void> {
  if (place.name === "Redis") {
    const client = new Redis(place.url);
    onTestFinished(() => client.disconnect());
    await client.hset(`{${place.schema}}:meta`, "schema", "2", "seq", "1");
    return;
  }
  const start = place.name === "PostgreSQL" ? "" : "stayhook_";
  await sql(
    `CREATE TABLE ${start}meta (name VARCHAR(99) PRIMARY KEY, value TEXT NOT NULL, set_at BIGINT NOT NULL)`,
  );
  await sql(`CREATE TABLE ${start}events (seq BIGINT PRIMARY KEY, ref TEXT, state TEXT, received_at BIGINT)`);
  await sql(`INSERT INTO ${start}meta VALUES ('schema', '2', 0)`);
  await sql(`INSERT INTO ${start}events VALUES (1, 'booking:HX3K9', 'pending', 1)`);
}

/** Everything that the place has. */
async function contentOf({ place, sql }: Place): Promise<unknown> {
  if (place.name !== "Redis") {
    const start = place.name === "PostgreSQL" ? "" : "stayhook_";
    return [await sql(`SELECT * FROM ${start}meta`), await sql(`SELECT * FROM ${start}events`)];
  }
  const client = new Redis(place.url);
  onTestFinished(() => client.disconnect());
  return [await client.hgetall(`{${place.schema}}:meta`), await client.keys(`{${place.schema}}*`)];
}

const words: Readonly<Record<string, RegExp>> = {
  SQLite: /stayhook 1\.2 or an earlier version made the tables in the file.*another file, or delete this one/,
  PostgreSQL:
    /made the tables in the schema \w+, .*set the option schema to another name, or drop the schema/,
  MySQL: /made the tables in the database, .*another database, or drop its tables that begin with stayhook_/,
  Redis: /wrote the keys \{\w+\}:\*, .*set the option prefix to another value, or delete the keys/,
};

/** Runs each call on a handle of its own. `sqliteStore()` itself throws. */
async function refusalsOf(place: Place): Promise<unknown[]> {
  const calls = ["add", "claim", "counts", "schema"] as const;
  const found: unknown[] = [];
  for (const name of calls) {
    try {
      const store = place.open();
      onTestFinished(() => store.close());
      if (name === "add") await store.add(eventOf());
      else if (name === "claim") await store.claim({ limit: 1, leaseDuration: 1000 });
      else await store[name]!();
      found.push(`${name} worked`);
    } catch (error) {
      found.push(error);
    }
  }
  return found;
}

describeEvery(
  ({ name }) => name !== "memory",
  (kind: Kind) => {
    test("what stayhook 1.2 or an earlier version left is refused with what to do, and not changed", async () => {
      const place = await kind.create();
      await leaveBehind(place);
      const before = await contentOf(place);
      for (const refusal of await refusalsOf(place)) {
        expect(refusal).toMatchObject({
          name: "StayhookError",
          message: expect.stringMatching(words[kind.name]!),
        });
        expect(String(refusal)).toContain("Let that version handle all its events.");
      }
      expect(await contentOf(place)).toEqual(before);
    });

    test("the command line refuses it with the same words", async () => {
      const place = await kind.create();
      await leaveBehind(place);
      const { name, url, schema } = place.place;
      const option = { PostgreSQL: `--schema ${schema}`, Redis: `--prefix ${schema}` }[name] ?? "";
      const listed = await cli(`events ls ${option}`.trim(), { env: { STAYHOOK_STORE: url } });
      expect(listed).toMatchObject({ code: 1, stdout: "" });
      expect(listed.stderr).toMatch(words[kind.name]!);
    });
  },
);
