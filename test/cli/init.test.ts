import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { parseEnv } from "node:util";
import { describe, expect, test } from "vitest";
import { exampleNames, isSource } from "../../src/cli/example-app.ts";
import { version } from "../../src/version.ts";
import { spawned } from "./process.ts";
import { cli, directory } from "./support.ts";

const root = join(import.meta.dirname, "../..");
/** The files in a folder, by their paths in it. */
const walk = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(folder, join(parentPath, name)))
    .toSorted();
const json = (file: string) => JSON.parse(readFileSync(file, "utf8"));

describe("stayhook init", () => {
  test("--list shows each example with what it is", async () => {
    const { code, stdout } = await cli("init --list --json");
    expect(code).toBe(0);
    const { examples } = JSON.parse(stdout);
    expect(examples.map(({ name }: { name: string }) => name)).toEqual([...exampleNames]);
    for (const { about } of examples) expect(about).toMatch(/^[^[\]`|]{3,}$/);
    expect((await cli("init --list")).stdout).toContain("\nexpress\tExpress 5. ");
  });

  test.each(exampleNames)("makes %s", async (example) => {
    const folder = join(directory(), "My App");
    const { code, stdout } = await cli(["init", example, folder, "--json"]);
    expect(code).toBe(0);
    const { files } = JSON.parse(stdout);
    expect(files).toEqual(
      expect.arrayContaining([".env.example", "README.md", "app.test.ts", "package.json"]),
    );
    for (const file of files) expect(existsSync(join(folder, file)), file).toBe(true);
    const { name, scripts, dependencies } = json(join(folder, "package.json"));
    expect(name).toBe("my-app");
    expect(dependencies.stayhook).toBe(`^${version}`);
    expect(scripts.start).toContain("node --env-file=.env.example --env-file-if-exists=.env ");
    expect(files).toEqual(walk(folder));
    const made = json(join(folder, "package.json"));
    expect(made).toMatchObject({ private: true, type: "module", engines: { node: ">=22.18" } });
    expect(made.scripts.test).toBe("node --test app.test.ts");
    const own = join(root, "examples", example, "package.json");
    if (existsSync(own)) expect(made.devDependencies).toEqual(json(own).devDependencies);
    const [, started = ""] = /node (?:--\S+ )*(\S+\.[jt]s)$/.exec(made.scripts.start) ?? [];
    if (example === "next")
      expect(made.scripts.start).toMatch(/^next build && node .*node_modules\/next\/dist\/bin\/next start/);
    else expect(files).toContain(started.replace("dist/main.js", "main.ts"));
    expect(readFileSync(join(folder, ".gitignore"), "utf8").split("\n")).toEqual(
      expect.arrayContaining(["node_modules", ".env", "*.db*"]),
    );
    const readme = readFileSync(join(folder, "README.md"), "utf8");
    const values = parseEnv(readFileSync(join(folder, ".env.example"), "utf8"));
    expect(values).toMatchObject({
      STAYHOOK_BASE_URL: "http://127.0.0.1:4010",
      STAYHOOK_ACCESS_TOKEN: "sandbox-token",
    });
    expect(readme).toContain(
      example === "vendor"
        ? "stayhook sandbox --accounts a17,b2"
        : `--to "http://127.0.0.1:${values.PORT}/hooks?key=${values.WEBHOOK_SECRET}"`,
    );
    const dockerfile = readFileSync(join(folder, "Dockerfile"), "utf8");
    expect(dockerfile).toContain(
      "\nVOLUME /data\nENV NODE_ENV=production HOST=0.0.0.0 EVENTS_DB=/data/events.db\n",
    );
    const [, command = "[]"] = /^CMD (.*)$/m.exec(dockerfile)!;
    const [program, file, ...options] = JSON.parse(command) as string[];
    expect(program).toBe("node");
    if (example === "next")
      expect([file, options]).toEqual([
        expect.stringMatching(/next$/),
        expect.arrayContaining(["-H", "0.0.0.0"]),
      ]);
    else expect(file).toBe(started);
    expect(readFileSync(join(folder, ".dockerignore"), "utf8").split("\n")).toContain(".env");
    expect(readme.trimEnd().split("\n").length).toBeLessThanOrEqual(12);
  });

  test("the versions are those that this repository tests", () => {
    const { devDependencies } = json(join(root, "package.json"));
    const { dependencies: heavy } = json(join(root, "test/heavy/package.json"));
    return Promise.all(
      exampleNames.map(async (example) => {
        const folder = join(directory(), "app");
        await cli(["init", example, folder]);
        const { stayhook: _, ...packages } = json(join(folder, "package.json")).dependencies;
        for (const [name, range] of Object.entries<string>(packages)) {
          const tested: string = devDependencies[name] ?? heavy[name];
          expect(tested, name).toBeDefined();
          expect(range.split(".")[0], name).toBe(`^${tested.replace("^", "").split(".")[0]}`);
        }
      }),
    );
  });

  test("never overwrites, and says where to make the app instead", async () => {
    const folder = directory();
    writeFileSync(join(folder, "package.json"), "mine");
    const { code, stderr } = await cli(["init", "express", folder]);
    expect(code).toBe(1);
    expect(stderr).toContain(`The folder ${folder} is not empty, and init overwrites nothing.`);
    expect(stderr).toContain("stayhook init express my-app");
    expect(readdirSync(folder)).toEqual(["package.json"]);
    expect(readFileSync(join(folder, "package.json"), "utf8")).toBe("mine");
  });

  test("takes a folder that has only a repository of git", async () => {
    const folder = directory();
    mkdirSync(join(folder, ".git"));
    writeFileSync(join(folder, ".git", "HEAD"), "ref");
    const { code, stdout } = await cli(["init", "koa.ts", folder, "--json"]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      example: "koa",
      files: expect.not.arrayContaining([".git/HEAD"]),
    });
    expect(existsSync(join(folder, "koa.ts"))).toBe(true);
  });

  test.each([
    ["It's mine", "it-s-mine", "'It'\\''s mine'"],
    ["--Übung 2", "bung-2", "'--Übung 2'"],
    ["東京", "app", "'東京'"],
    ["plain", "plain", "plain"],
  ])("names the app of the folder %s, and prints commands that a shell takes", async (name, app, word) => {
    const cwd = directory();
    const running = spawned(["init", "hono", `./${name}`], { cwd });
    expect(await running.ended, running.output()).toBe(0);
    expect(json(join(cwd, name, "package.json")).name).toBe(app);
    const quoted = word.startsWith("'") ? `'./${word.slice(1)}` : `./${word}`;
    expect(running.output()).toContain(
      `\n  cd ${quoted} && npm install\n  npm start\n  npx stayhook sandbox --to `,
    );
  });

  test("copies no files that an example has made", () => {
    for (const name of ["node_modules", "dist", ".next", "next-env.d.ts", "events.db", "events.db-wal"])
      expect(isSource(join(root, "examples/next", name)), name).toBe(false);
    for (const name of ["package.json", "app", "route.ts", "database.ts"])
      expect(isSource(join(root, "examples/next", name)), name).toBe(true);
  });

  test("names the example that was meant", async () => {
    const { code, stderr } = await cli(["init", "expres", join(directory(), "app")]);
    expect(code).toBe(2);
    expect(stderr).toContain(
      "There is no example expres. Did you mean express? stayhook init --list shows them.",
    );
  });

  test("asks in a terminal, and ends although stdin stays open", async () => {
    const folder = join(directory(), "app");
    const running = spawned(["init"], { columns: 80, cwd: directory() });
    await running.says("Example [node-http]: ");
    running.type("fastify\n");
    await running.says("Folder [.]: ");
    running.type(`${folder}\n`);
    expect(await running.ended).toBe(0);
    expect(existsSync(join(folder, "fastify.ts"))).toBe(true);
    expect(running.output()).toContain("npm install");
  });

  test("in a terminal, an empty answer is the default, and the end of stdin makes nothing", async () => {
    const cwd = directory();
    const given = { typing: true, env: {} };
    const ended = await cli(["init"], { ...given, input: "hono\n" });
    expect(ended).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("stdin ended before the answers. Nothing was made."),
    });
    const running = spawned(["init"], { columns: 80, cwd });
    await running.says("Example [node-http]: ");
    running.type("\n");
    await running.says("Folder [.]: ");
    running.type("\n");
    expect(await running.ended).toBe(0);
    expect(readdirSync(cwd)).toContain("node-http.ts");
    expect(running.output()).not.toContain("cd ");
  });

  test("without a terminal, makes the default in the current folder, and asks nothing", async () => {
    const cwd = directory();
    const running = spawned(["init"], { cwd });
    expect(await running.ended).toBe(0);
    expect(readdirSync(cwd)).toContain("node-http.ts");
    expect(running.output()).not.toContain("Example [");
  });
});
