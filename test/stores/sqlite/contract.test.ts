import { describe, test } from "vitest";
import { storeContract } from "../../../src/stores/contract/store-contract.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { createFiles } from "./support.ts";

const files = createFiles();

describe("over a file", () => {
  const paths = new Map<unknown, string>();
  const open = (path: string) => {
    const store = sqliteStore(path, { durability: "process-crash" });
    paths.set(store, path);
    return store;
  };
  const cases = storeContract(() => open(files.path()), {
    async reopen(store) {
      await store.close();
      return open(paths.get(store)!);
    },
    another: (store) => open(paths.get(store)!),
  });
  for (const { name, run } of cases) test.concurrent(name, run);
});

describe("in memory", () => {
  for (const { name, run } of storeContract(() => sqliteStore(":memory:"))) test.concurrent(name, run);
});
