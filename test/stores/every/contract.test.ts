import { expect, test, vi } from "vitest";
import { storeContract } from "../../../src/stores/contract/store-contract.ts";
import { describeEvery, type Kind, type Place } from "./stores.ts";

// The cases wait most of the time.
vi.setConfig({ maxConcurrency: 30 });

/** The unit of the waits, ms. A call of a server may take long on a busy machine. */
const UNITS: Record<Kind["name"], number> = {
  memory: 50,
  SQLite: 200,
  Redis: 200,
  PostgreSQL: 500,
  MySQL: 500,
};

describeEvery(
  () => true,
  (kind) => {
    /** Empty databases. To make one takes longer than most cases. */
    const free: Place[] = [];
    const casesOn = (place: () => Place) => {
      const open = () => place().open({ shares: true, commandTimeout: 60_000, pollInterval: "10ms" });
      return storeContract(open, {
        unit: UNITS[kind.name],
        another: open,
        async reopen(store) {
          await store.close();
          return open();
        },
      });
    };
    const names = casesOn(() => expect.fail("no place")).map(({ name }) => name);

    test.concurrent.each(names)("%s", async (name) => {
      const place = free.pop() ?? (await kind.create());
      await casesOn(() => place)
        .find((each) => each.name === name)!
        .run();
      if (place.empty === undefined) return;
      await place.empty();
      free.push(place);
    });
  },
  { isConcurrent: true },
);
