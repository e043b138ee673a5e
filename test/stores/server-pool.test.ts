import { afterAll, expect, test, vi } from "vitest";
import { InvalidWriteError } from "../../src/errors.ts";
import { connectWithin, writeWithinTime } from "../../src/stores/server-pool.ts";

// Files share a worker and its modules. Those that another file has loaded know no mock, and a later file wants none.
vi.hoisted(() => vi.resetModules());
afterAll(() => void vi.resetModules());

// `server-pool.ts` imports its timers, so fake timers do not reach them. A minute takes 60 ms here.
vi.mock("node:timers", async (original) => ({
  ...(await original<typeof import("node:timers")>()),
  setTimeout: (run: () => void, ms: number) => globalThis.setTimeout(run, ms / 1000),
}));

test("a connection that arrives in time is not released", async () => {
  const connection = { release: vi.fn() };
  expect(await connectWithin(1000, Promise.resolve(connection))).toBe(connection);
  expect(connection.release).not.toHaveBeenCalled();
});

test("a connection that arrives too late is released to its pool", async () => {
  const connection = { release: vi.fn() };
  const { promise, resolve } = Promise.withResolvers<typeof connection>();
  await expect(connectWithin(5, promise)).rejects.toThrow("the pool gave no connection within 5 ms");
  expect(connection.release).not.toHaveBeenCalled();
  resolve(connection);
  await promise;
  expect(connection.release).toHaveBeenCalledOnce();
});

/** A connection with a private field, which only its own methods can reach. */
class Connection {
  #sent: string[] = [];
  readonly release = vi.fn();
  query(text: string) {
    return this.#sent.push(text);
  }
  get sent() {
    return this.#sent;
  }
}

test("a function of event.atomically cannot release the connection of the transaction", async () => {
  const connection = new Connection();
  await writeWithinTime(connection, async (tx) => {
    expect(tx).toBeInstanceOf(Connection);
    tx.query("one");
    tx.release();
    tx.query("two");
    expect(tx.sent).toEqual(["one", "two"]);
  });
  expect(connection.release).not.toHaveBeenCalled();
});

test.each(["its function has ended", "its time is over"])("the connection throws after %s", async (end) => {
  const connection = new Connection();
  let kept: Connection | undefined;
  const writing = writeWithinTime(connection, async (tx) => {
    kept = tx;
    if (end === "its time is over") await new Promise(() => {});
  });
  expect(await writing.catch((error: unknown) => error)).toEqual(
    end === "its time is over" ? expect.any(InvalidWriteError) : undefined,
  );
  expect(() => kept!.query("late")).toThrow(InvalidWriteError);
  kept!.release();
  expect(connection.sent).toEqual([]);
  expect(connection.release).not.toHaveBeenCalled();
});
