import { expect, test } from "vitest";
import { mysqlStore } from "../../src/stores/mysql/index.ts";
import { notReachable } from "../../src/stores/redis/redis-errors.ts";
import { eventOf } from "./event.ts";

const notReady = Object.assign(new Error("getaddrinfo EAI_AGAIN db"), { code: "EAI_AGAIN" });
const HINT = /getaddrinfo EAI_AGAIN db\. DNS is not ready yet\. Try again in a moment/;

test("mysqlStore tells a name that DNS does not know yet", async () => {
  const failing = () => Promise.reject(notReady);
  const store = mysqlStore({
    pool: { getConnection: failing, query: failing, on() {}, pool: { config: {} } } as never,
  });
  await expect(store.add(eventOf())).rejects.toThrow(HINT);
  await store.close();
});

test("redisStore tells a name that DNS does not know yet", () => {
  expect(notReachable({ name: "db", secrets: [], isTls: false }, 5000, notReady).message).toMatch(HINT);
});
