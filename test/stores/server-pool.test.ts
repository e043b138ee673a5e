import { expect, test, vi } from "vitest";
import { connectWithin } from "../../src/stores/server-pool.ts";

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
