import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { cruise, type ICruiseResult } from "dependency-cruiser";
import extractTSConfig from "dependency-cruiser/config-utl/extract-ts-config";
import ts from "typescript";
import { beforeAll, expect, test } from "vitest";

const root = join(import.meta.dirname, "..");

/**
 * The folders of src, and the folders that each may import. ARCHITECTURE.md has the same table. Every folder may
 * import the files that lie in src itself, such as errors.ts.
 */
const arrows: Readonly<Record<string, readonly string[]>> = {
  models: [],
  client: ["models"],
  stores: [],
  queue: ["stores"],
  stays: ["models", "stores"],
  webhooks: ["client", "models", "queue", "stays", "stores"],
  adapters: ["webhooks"],
  otel: ["client", "queue", "stores", "webhooks"],
  reconcile: ["client", "models", "queue", "stores", "webhooks"],
  console: ["adapters", "models", "stays", "stores", "webhooks"],
  sandbox: ["adapters", "client", "console", "models"],
  testing: ["client", "models", "sandbox", "stores", "webhooks"],
  cli: [
    "adapters",
    "client",
    "console",
    "models",
    "reconcile",
    "sandbox",
    "stays",
    "stores",
    "testing",
    "webhooks",
  ],
};

const folderOf = (path: string): string | undefined => /^src\/([\w-]+)\//.exec(path)?.[1];

let cruised: ICruiseResult;
beforeAll(async () => {
  const { output } = await cruise(
    ["src"],
    {
      baseDir: root,
      tsPreCompilationDeps: true,
      doNotFollow: { path: "node_modules" },
      exclude: { path: "node_modules" },
      // Without `validate`, dependency-cruiser ignores the rules.
      validate: true,
      ruleSet: {
        forbidden: [
          {
            name: "circular",
            from: {},
            // Circles of types count, too, because a reader has to read all files of a circle at once.
            to: { circular: true },
          },
        ],
      },
    },
    undefined,
    { tsConfig: extractTSConfig(join(root, "tsconfig.json")) },
  );
  cruised = output as ICruiseResult;
});

test("the folders of src are those that have arrows", () => {
  const folders = new Set(cruised.modules.map(({ source }) => folderOf(source)));
  folders.delete(undefined);
  expect([...folders].sort()).toEqual(Object.keys(arrows).sort());
});

test.each(Object.keys(arrows))("src/%s imports along the arrows alone", (folder) => {
  const against = cruised.modules
    .filter(({ source }) => folderOf(source) === folder)
    .flatMap(({ source, dependencies }) =>
      dependencies
        .map(({ resolved }) => [folderOf(resolved), resolved] as const)
        .filter(([to]) => to !== undefined && to !== folder && !arrows[folder]?.includes(to))
        .map(([, resolved]) => `${source} imports ${resolved}`),
    );
  expect(against).toEqual([]);
});

test("no file imports itself by way of others", () => {
  const circles = cruised.summary.violations
    .filter(({ rule }) => rule.name === "circular")
    .map(({ from, to }) => `${from} -> ${to}`);
  expect(circles).toEqual([]);
});

test("each file that ARCHITECTURE.md names is there", () => {
  const text = readFileSync(join(root, "ARCHITECTURE.md"), "utf8");
  const names = [...text.matchAll(/(?:\]\(|`)((?:src|test|tools|docs)\/[\w./-]+|subpaths\.config\.ts)/g)].map(
    ([, name]) => name as string,
  );
  expect(names.length).toBeGreaterThan(20);
  expect(names.filter((name) => !existsSync(join(root, name)))).toEqual([]);
});

test("ARCHITECTURE.md has at most 1,700 words", () => {
  expect(readFileSync(join(root, "ARCHITECTURE.md"), "utf8").trim().split(/\s+/).length).toBeLessThanOrEqual(
    1700,
  );
});

test("no function of src has over 60 lines, and no file over 400", () => {
  const files = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => `src/${name}`);
  const found = files.flatMap((file) => {
    const source = ts.createSourceFile(
      file,
      readFileSync(join(root, file), "utf8"),
      ts.ScriptTarget.Latest,
      true,
    );
    const lineOf = (position: number) => source.getLineAndCharacterOfPosition(position).line + 1;
    const long = lineOf(source.end) - 1 > 400 ? [file] : [];
    const visit = (node: ts.Node): void => {
      if (ts.isFunctionLike(node) && lineOf(node.end) - lineOf(node.getStart()) >= 60)
        long.push(`${file}: ${node.name?.getText() ?? `line ${lineOf(node.getStart())}`}`);
      ts.forEachChild(node, visit);
    };
    visit(source);
    return long;
  });
  expect(files.length).toBeGreaterThan(200);
  expect(found).toEqual([]);
});
