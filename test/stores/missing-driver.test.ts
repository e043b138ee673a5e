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

/** What loaders say, and what the store says then. */
const problems: Record<string, readonly [thrown: string, said: (name: string) => string]> = {
  Node: [
    `Object.assign(new Error("Cannot find package '<name>'"), { code: "ERR_MODULE_NOT_FOUND" })`,
    (name) => `needs the package ${name}, which is not installed: npm install ${name}`,
  ],
  "Yarn PnP": [
    `Object.assign(new Error("Your application tried to access <name>, but it isn't declared\\n\\nRequired by: x"),
      { code: "MODULE_NOT_FOUND", pnpCode: "UNDECLARED_DEPENDENCY" })`,
    (name) =>
      `needs the package ${name}, which your package.json does not list. Yarn PnP loads only listed packages: yarn add ${name}`,
  ],
  "esbuild's ESM": [
    `new Error('Dynamic require of "events" is not supported')`,
    (name) =>
      `could not load the package ${name} (Dynamic require of "events" is not supported). Install ${name}, and if you bundle your app, name ${name} as external in the bundler's settings`,
  ],
  "ncc without a package that the driver needs": [
    `Object.assign(new Error("Cannot find module 'deep'\\nRequire stack: …"), { code: "MODULE_NOT_FOUND" })`,
    (name) =>
      `could not load the package ${name} (Cannot find module 'deep'). Install ${name}, and if you bundle your app, name ${name} as external in the bundler's settings`,
  ],
};

test.each(stores)(
  "without the package $name, the first call says what to do, whatever the loader's error",
  async ({ store, folder, name, options }) => {
    const from = (file: string) => JSON.stringify(new URL(`../../src/${file}`, import.meta.url).href);
    const url = Object.values(options)[0];
    const script = `
    import { registerHooks } from "node:module";
    const problems = [${Object.values(problems)
      .map(([thrown]) => thrown.replaceAll("<name>", name))
      .join()}];
    let problem;
    registerHooks({ resolve(specifier, context, next) {
      if (specifier.split("/")[0] === "${name}") throw problem;
      return next(specifier, context);
    } });
    const { ${store} } = await import(${from(`stores/${folder}/index.ts`)});
    const { openStore } = await import(${from("cli/open-store.ts")});
    for (problem of problems) {
      const store = ${store}(${JSON.stringify(options)});
      store.subscribe?.(() => {});
      await store.counts().catch((error) => console.log(error.name, error.message));
      await store.close();
      const invocation = { text: () => undefined, out: { warn() {} } };
      await openStore(invocation, ${JSON.stringify(url)}, { setting: "--store", isOption: false })
        .catch((error) => console.log(error.name, error.message));
    }`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [said, [code]] = await Promise.all([text(child.stdout), once(child, "exit")]);
    const expected = Object.values(problems).flatMap(([, sentence]) => {
      const line = `StayhookError ${store} ${sentence(name)}`;
      return [line, line];
    });
    expect([code, said.trim().split("\n")]).toEqual([0, expected]);
  },
);
