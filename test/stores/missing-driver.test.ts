import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";

const stores = [
  {
    store: "postgresStore",
    folder: "postgres",
    name: "pg",
    options: { connectionString: "postgresql://u:p4ss@127.0.0.1:1/none" },
  },
  {
    store: "mysqlStore",
    folder: "mysql",
    name: "mysql2",
    options: { url: "mysql://u:p4ss@127.0.0.1:1/none" },
  },
  { store: "redisStore", folder: "redis", name: "ioredis", options: { url: "redis://u:p4ss@127.0.0.1:1" } },
];

test.each(stores)(
  "without the package $name, the first call says how to install it",
  async ({ store, folder, name, options }) => {
    const script = `
    import { registerHooks } from "node:module";
    registerHooks({ resolve(specifier, context, next) {
      if (specifier.split("/")[0] === "${name}")
        throw Object.assign(new Error("Cannot find package '${name}'"), { code: "ERR_MODULE_NOT_FOUND" });
      return next(specifier, context);
    } });
    const { ${store} } = await import(${JSON.stringify(new URL(`../../src/stores/${folder}/index.ts`, import.meta.url).href)});
    const store = ${store}(${JSON.stringify(options)});
    store.subscribe?.(() => {});
    await store.counts().catch((error) => console.log(error.name, error.message));
    await store.close();`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [said, [code]] = await Promise.all([text(child.stdout), once(child, "exit")]);
    expect([code, said.trim()]).toEqual([
      0,
      `StayhookError ${store} needs the package ${name}, which is not installed: npm install ${name}`,
    ]);
  },
);
