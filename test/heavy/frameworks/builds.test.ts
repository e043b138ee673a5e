// Builds of apps without the variables of the server, as in a Dockerfile, and a hot reload.

import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { createServer } from "vite";
import { expect, onTestFinished, test, vi } from "vitest";
import { homeOf, installed } from "../../package/support/consumer.ts";
import { root } from "../../package/support/pack.ts";
import { eventually, PATIENCE } from "../../support/eventually.ts";

const project = await installed([
  ...["ky", "uuid", "zod", "typescript", "@types/node", "next", "react", "react-dom", "@types/react"],
  ...["@sveltejs/kit", "@sveltejs/adapter-node", "@sveltejs/vite-plugin-svelte", "svelte", "vite"],
]);
const run = promisify(execFile);
const node = process.execPath;

/** The variables of a build in a container: none of the server's. */
const {
  STAYHOOK_BASE_URL: _url,
  STAYHOOK_ACCESS_TOKEN: _token,
  WEBHOOK_SECRET: _secret,
  ...env
} = process.env;
const bare = { ...env, NODE_ENV: undefined, NODE_OPTIONS: "", CI: "1", NEXT_TELEMETRY_DISABLED: "1" };

/** Makes an app of the example's files and of further ones. Returns its folder. */
function appOf(
  name: string,
  copies: Readonly<Record<string, string>>,
  files: Readonly<Record<string, string>>,
) {
  const directory = join(project.directory, name);
  for (const [to, from] of Object.entries(copies))
    cpSync(join(root, "examples", from), join(directory, to), { recursive: true });
  for (const [to, content] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, to)), { recursive: true });
    writeFileSync(join(directory, to), content);
  }
  return directory;
}

test("Next.js builds without a variable, and leaves no events.db", async () => {
  // The project's node_modules links into this repository, so the root must be above both.
  const config = "export default { turbopack: { root: '/' } };";
  const directory = appOf("next", { ".": "next" }, { "next.config.mjs": config });
  await run(node, [join(homeOf("next"), "dist/bin/next"), "build"], { cwd: directory, env: bare });
  expect(existsSync(join(directory, ".next/server/app/hooks/route.js"))).toBe(true);
  expect(existsSync(join(directory, "events.db"))).toBe(false);
});

test("SvelteKit builds without a variable, and leaves no events.db", async () => {
  const route = readFileSync(join(root, "examples/routes/sveltekit.ts"), "utf8");
  const directory = appOf(
    "sveltekit",
    { "src/lib/server/webhooks.ts": "routes/webhooks.ts" },
    {
      "package.json": '{ "type": "module" }',
      "vite.config.js":
        'import { sveltekit } from "@sveltejs/kit/vite"; export default { plugins: [sveltekit()] };',
      "svelte.config.js":
        'import adapter from "@sveltejs/adapter-node"; export default { kit: { adapter: adapter() } };',
      "src/app.html": "<html><head>%sveltekit.head%</head><body>%sveltekit.body%</body></html>",
      "src/routes/hooks/+server.ts": route.replace("./webhooks.ts", "$lib/server/webhooks"),
    },
  );
  await run(node, [join(homeOf("vite"), "bin/vite.js"), "build"], { cwd: directory, env: bare });
  expect(existsSync(join(directory, "build/index.js"))).toBe(true);
  expect(existsSync(join(directory, "events.db"))).toBe(false);
});

test("a hot reload of Vite ends the handler with the old callbacks", async () => {
  const directory = appOf(
    "reload",
    { "webhooks.ts": "routes/webhooks.ts" },
    { "package.json": '{ "type": "module" }' },
  );
  vi.stubEnv("STAYHOOK_BASE_URL", "http://127.0.0.1:1");
  vi.stubEnv("STAYHOOK_ACCESS_TOKEN", "token");
  vi.stubEnv("WEBHOOK_SECRET", "s3cret of the reload");
  vi.stubEnv("EVENTS_DB", join(directory, "events.db"));
  onTestFinished(() => void vi.unstubAllEnvs());
  const server = await createServer({
    root: directory,
    configFile: false,
    logLevel: "silent",
    appType: "custom",
    server: { middlewareMode: true, ws: false },
  });
  onTestFinished(() => server.close());
  const load = () =>
    server.ssrLoadModule("/webhooks.ts") as Promise<typeof import("../../../examples/routes/webhooks.ts")>;
  const old = await load();
  const file = join(directory, "webhooks.ts");
  await eventually(
    async () => {
      writeFileSync(file, `${readFileSync(file, "utf8")}// ${randomUUID()}\n`);
      expect(await load()).not.toBe(old);
    },
    PATIENCE,
    500,
  );
  const { webhooks, store } = await load();
  await eventually(async () => expect(await old.webhooks.health()).toMatchObject({ state: "stopped" }));
  expect(await webhooks.health()).not.toMatchObject({ state: "stopped" });
  await webhooks.close();
  await Promise.all([store.close(), old.store.close()]);
});
