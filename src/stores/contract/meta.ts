import { between, equal } from "./expect.ts";
import { type Cases, parked } from "./harness.ts";

export const metas: Cases = {
  "a value is set where it was not, and read with its age": async ({ store, sleep, unit }) => {
    equal("getMeta of an unknown key", await store.getMeta("lock"), undefined);
    const start = performance.now();
    equal("setMeta", await store.setMeta("lock", "one", { expected: undefined }), true);
    const set = performance.now();
    const first = await store.getMeta("lock");
    equal("its value", first?.value, "one");
    await sleep(2);
    const least = Math.floor(performance.now() - set) - 5;
    const later = await store.getMeta("lock");
    between("its age", later?.age, least, Math.ceil(performance.now() - start) + 5);
    equal("setMeta, the same value again", await store.setMeta("lock", "one", { expected: "one" }), true);
    const again = await store.getMeta("lock");
    between("its age, set again", again?.age, 0, Math.ceil(performance.now() - start) - 2 * unit + 5);
  },

  "a value is set only where it is the expected one": async ({ store }) => {
    equal("setMeta of an unknown key", await store.setMeta("a", "1", { expected: "0" }), false);
    equal("getMeta", await store.getMeta("a"), undefined);
    equal("delete of an unknown key", await store.setMeta("a", undefined, { expected: "0" }), false);
    await store.setMeta("a", "1", { expected: undefined });
    equal("setMeta, expecting none", await store.setMeta("a", "2", { expected: undefined }), false);
    equal("setMeta, expecting another", await store.setMeta("a", "2", { expected: "10" }), false);
    equal("delete, expecting another", await store.setMeta("a", undefined, { expected: "2" }), false);
    equal("the value", (await store.getMeta("a"))?.value, "1");
    equal("setMeta, expecting it", await store.setMeta("a", "2", { expected: "1" }), true);
    equal("the new value", (await store.getMeta("a"))?.value, "2");
    equal("delete, expecting it", await store.setMeta("a", undefined, { expected: "2" }), true);
    equal("getMeta of the deleted key", await store.getMeta("a"), undefined);
    equal(
      "delete of nothing, expecting none",
      await store.setMeta("a", undefined, { expected: undefined }),
      true,
    );
  },

  "keys and values are kept exactly, and apart": async ({ store }) => {
    const values = {
      "reconcile:lock": "",
      "reconcile:Lock": '{"a": 1}',
      "ключ '\"%_": "日本 🎉 '; --",
      long: "x".repeat(20_000),
    };
    for (const [key, value] of Object.entries(values)) {
      equal(`setMeta of ${key}`, await store.setMeta(key, value, { expected: undefined }), true);
    }
    for (const [key, value] of Object.entries(values)) {
      equal(`getMeta of ${key}`, (await store.getMeta(key))?.value, value);
    }
    equal(
      "setMeta, expecting an empty value",
      await store.setMeta("reconcile:lock", "x", { expected: "" }),
      true,
    );
  },

  "of many setting one key at once, one does": async ({ store }) => {
    const set = (expected: string | undefined) =>
      Promise.all(
        Array.from({ length: 12 }, (_, index) => store.setMeta("lock", `${expected}>${index}`, { expected })),
      );
    let expected: string | undefined;
    for (let round = 0; round < 3; round++) {
      const answers = await set(expected);
      equal("how many of them did", answers.filter(Boolean).length, 1);
      const value = (await store.getMeta("lock"))?.value;
      equal("the value", value, `${expected}>${answers.indexOf(true)}`);
      expected = value;
    }
  },

  "it is no event and no record, and outlives both": async ({ store, add, claimOne, done, settle }) => {
    await store.setMeta("booking:A", "kept", { expected: undefined });
    equal("counts", await store.counts(), { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 });
    equal("list", await store.list({ limit: 10 }), []);
    equal("recordOf", await store.recordOf("booking:A"), undefined);
    await add("booking:A");
    await done(await claimOne(), "Confirmed");
    await add("booking:B");
    await settle(await claimOne(), parked());
    await store.prune({ state: "done", age: 0, limit: 10 });
    await store.pruneRecords({ age: 0, limit: 10 });
    await store.erase("booking:A");
    await store.erase("booking:B");
    equal("getMeta", (await store.getMeta("booking:A"))?.value, "kept");
  },
};
