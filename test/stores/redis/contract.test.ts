import { describe, test } from "vitest";
import { storeContract } from "../../../src/stores/contract/store-contract.ts";
import { createPrefixes, openStore, url } from "./support.ts";

const prefix = createPrefixes();

describe.skipIf(url === undefined)("the contract", () => {
  const prefixes = new Map<unknown, string>();
  const open = (name: string) => {
    const store = openStore(name);
    prefixes.set(store, name);
    return store;
  };
  const cases = storeContract(() => open(prefix()), {
    async reopen(store) {
      await store.close();
      return open(prefixes.get(store)!);
    },
    another: (store) => open(prefixes.get(store)!),
    unit: 100,
  });
  for (const { name, run } of cases) test.concurrent(name, run);
});
