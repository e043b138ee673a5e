import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { exampleNames } from "../../src/cli/example-app.ts";
import { version } from "../../src/version.ts";
import { spawned } from "./process.ts";
import { cli, directory } from "./support.ts";

const root = join(import.meta.dirname, "../..");
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
    const readme = readFileSync(join(folder, "README.md"), "utf8");
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
    expect((await cli(["init", "koa", folder])).code).toBe(0);
    expect(existsSync(join(folder, "koa.ts"))).toBe(true);
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

  test("without a terminal, makes the default in the current folder, and asks nothing", async () => {
    const cwd = directory();
    const running = spawned(["init"], { cwd });
    expect(await running.ended).toBe(0);
    expect(readdirSync(cwd)).toContain("node-http.ts");
    expect(running.output()).not.toContain("Example [");
  });
});
