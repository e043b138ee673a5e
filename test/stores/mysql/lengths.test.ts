import { expect, onTestFinished, test } from "vitest";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { CLAIM, eventOf } from "../event.ts";
import { createDatabases, describeMysql } from "./support.ts";

const FOUR_BYTES = "\u{1f3e0}";

describeMysql("texts at the limits of the key columns", () => {
  const databases = createDatabases();

  async function open() {
    const store = mysqlStore({ url: await databases.create() });
    onTestFinished(() => store.close());
    return store;
  }

  test("the store keeps a long code whole, or rejects it", async () => {
    const store = await open();
    const refs = [254, 255, 256].map((length) => `booking:${FOUR_BYTES.repeat(length)}`);
    await store.add(eventOf(refs[0]));
    for (const ref of refs.slice(1)) await expect(store.add(eventOf(ref))).rejects.toThrow("'ref'");
    const claims = await store.claim(CLAIM);
    expect(claims.map(({ ref }) => ref)).toEqual([refs[0]]);
  });

  test("the store keeps a long event id whole, or rejects it", async () => {
    const store = await open();
    const ids = [254, 255, 300].map((length) => "x".repeat(length));
    expect(await store.add(eventOf("booking:A", ids[0]))).toBe("added");
    // The second `add` of an id that was cut would find an event with another id.
    for (const id of [ids[1], ids[1], ids[2]])
      await expect(store.add(eventOf("booking:A", id))).rejects.toThrow("'id'");
    expect(await store.add(eventOf("booking:A", ids[0]))).toBe("duplicate");
    expect((await store.list({ limit: 10 })).map(({ eventId }) => eventId)).toEqual([ids[0]]);
  });

  test("a text that is too long fails no other event of its group", async () => {
    const store = await open();
    const known = eventOf();
    await store.add(known);
    const long = eventOf(`booking:${FOUR_BYTES.repeat(255)}`);
    const answers = await Promise.allSettled(
      [long, eventOf(), known, eventOf("booking:B")].map((event) => store.add(event)),
    );
    expect(answers).toMatchObject([
      { status: "rejected" },
      { value: "added" },
      { value: "duplicate" },
      { value: "added" },
    ]);
  });
});
