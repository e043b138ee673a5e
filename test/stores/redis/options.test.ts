import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.ts";
import { type RedisStoreOptions, redisStore } from "../../../src/stores/redis/index.ts";

const url = "redis://127.0.0.1:6379";
const idle = new Redis({ lazyConnect: true });
const named = (keyPrefix: string) => new Redis({ lazyConnect: true, keyPrefix });

test.each([
  ["no options", undefined, [[]]],
  ["a client in place of the options", idle, [[]]],
  ["neither url nor client", {}, [["url"]]],
  ["both url and client", { url, client: idle }, [["url"]]],
  ["a URL with another protocol", { url: "https://user:hush@example.com" }, [["url"]]],
  ["text that is not a URL", { url: "user:hush@example.com" }, [["url"]]],
  ["a URL whose password has a stray %", { url: "redis://:hush%zz@example.com" }, [["url"]]],
  ["an empty URL", { url: "" }, [["url"]]],
  ["a client of another package", { client: { get() {} } }, [["client"]]],
  ["a client whose keyPrefix makes another hash tag", { client: named("{app}:") }, [["client"]]],
  ["an empty prefix", { url, prefix: "" }, [["prefix"]]],
  ["a prefix with braces", { url, prefix: "a{b}" }, [["prefix"]]],
  ["a prefix with a space", { url, prefix: "a b" }, [["prefix"]]],
  ["a prefix with a line break", { url, prefix: "a\n" }, [["prefix"]]],
  ["a prefix that is too long", { url, prefix: "x".repeat(201) }, [["prefix"]]],
  ["a timeout of 0", { url, commandTimeout: 0 }, [["commandTimeout"]]],
  ["an infinite timeout", { url, commandTimeout: Number.POSITIVE_INFINITY }, [["commandTimeout"]]],
  ["a misspelled option", { url, prefx: "mine" }, [["prefx"]]],
  ["a logger that cannot warn", { url, logger: {} }, [["logger"]]],
  ["several wrong options", { prefix: 1, commandTimeout: "1" }, [["url"], ["prefix"], ["commandTimeout"]]],
])("redisStore rejects %s", (_, options, paths) => {
  let thrown: unknown;
  try {
    redisStore(options as RedisStoreOptions);
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(InvalidArgumentError);
  expect((thrown as InvalidArgumentError).issues.map(({ path }) => path)).toEqual(paths);
  expect(String(thrown)).not.toContain("hush");
});

test.each([
  { url: "rediss://:secret@example.com:6380/2" },
  { url: "/run/redis.sock" },
  { client: idle },
  { client: named("app:") },
  { url, prefix: "my-app:stayhook", commandTimeout: 1 },
])("redisStore accepts %o, and does not connect", async (options) => {
  await redisStore(options).close();
  expect(idle.status).toBe("wait");
});

/** Runs a script in a process where ioredis is not installed. Returns the modules that it imported. */
async function withoutIoredis(script: string): Promise<unknown> {
  const hooks = `
    import { registerHooks } from "node:module";
    globalThis.asked = [];
    registerHooks({ resolve(name, context, next) {
      if (name !== "ioredis") return next(name, context);
      asked.push(name);
      throw Object.assign(new Error("Cannot find package 'ioredis'"), { code: "ERR_MODULE_NOT_FOUND" });
    } });`;
  const root = new URL("../../../src/", import.meta.url).href;
  const { stdout } = await promisify(execFile)(process.execPath, [
    `--import=data:text/javascript,${encodeURIComponent(hooks)}`,
    "--input-type=module",
    "--eval",
    script.replaceAll("src/", root),
  ]);
  return JSON.parse(stdout);
}

test("without ioredis, the import works, and the error of the first call says how to install it", async () => {
  const said = await withoutIoredis(`
    const { StayhookError } = await import("src/index.ts");
    const { redisStore } = await import("src/stores/redis/index.ts");
    const store = redisStore({ url: "redis://127.0.0.1:1" });
    const before = asked.length;
    const errors = [];
    for (const call of [() => store.counts(), () => store.nextDue()]) {
      await call().catch((error) => errors.push([error instanceof StayhookError, error.message]));
    }
    store.subscribe(() => {});
    await store.close();
    console.log(JSON.stringify({ before, errors }));`);
  const error = [true, "redisStore needs the package ioredis, which is not installed: npm install ioredis"];
  expect(said).toEqual({ before: 0, errors: [error, error] });
});
