// TypeScript writes the types of a user's exports into declaration files. It must find a name for each of them.
import { join } from "node:path";
import ts from "typescript";
import { beforeAll, describe, expect, test } from "vitest";
import { isSoak } from "../support/soak.ts";
import { type Consumer, installed } from "./support/consumer.ts";
import { root, subpaths } from "./support/pack.ts";
import { sweepOf } from "./support/sweep.ts";

const compilers = {
  "the oldest TypeScript": "test/heavy/node_modules/typescript",
  "this repository's TypeScript": "node_modules/typescript",
  "the newest TypeScript": "node_modules/typescript-newest",
};
const newest = compilers["the newest TypeScript"];

const modes = [
  { module: "node16", moduleResolution: "node16", extensions: ["mts", "cts"] },
  { module: "nodenext", moduleResolution: "nodenext", extensions: ["mts", "cts"] },
  { module: "esnext", moduleResolution: "bundler", extensions: ["ts"] },
];

let consumer: Consumer;
const sweeps = new Map<string, string>();
beforeAll(async () => {
  const types = ["@types/node", "undici", "undici-types", "@opentelemetry/api", "@types/pg", "mysql2"];
  consumer = await installed(["ky", "uuid", "zod", "pg", "ioredis", "msw", ...types]);
  for (const subpath of subpaths) {
    const { text, count } = sweepOf(consumer, subpath);
    expect(count, subpath).toBeGreaterThan(10);
    sweeps.set(subpath, text);
  }
});

/** Returns the errors of a project that emits the declarations of sweeps. */
async function errorsOf(
  compiler: string,
  { module, moduleResolution, extensions }: (typeof modes)[number],
  of: readonly string[],
): Promise<string> {
  const files = of.flatMap((subpath) =>
    extensions.map((extension) =>
      consumer.write(`${subpath.replaceAll("/", "-")}.${extension}`, sweeps.get(subpath) ?? ""),
    ),
  );
  const compilerOptions = {
    target: "es2022",
    lib: ["ES2023"],
    types: ["node"],
    module,
    moduleResolution,
    strict: true,
    declaration: true,
    emitDeclarationOnly: true,
    skipLibCheck: true,
    outDir: join(consumer.directory, "out"),
  };
  const project = consumer.write("tsconfig.json", JSON.stringify({ compilerOptions, files }));
  const ran = await consumer.node(join(root, compiler, "bin/tsc"), "--pretty", "false", "-p", project);
  return ran.code === null ? "the compiler took too long" : ran.stdout + ran.stderr;
}

test("the sweep finds members, arguments, results and the members of unions", () => {
  const text = [...sweeps.values()].join("\n");
  expect(text.match(/^export const e\d+ = /gm)?.length).toBeGreaterThan(2_000);
  for (const part of [/\["\w+"\]/, /argumentOf\(/, /resultOf\(/, /awaited\(/, /it\.kind === "parked"/])
    expect(text).toMatch(part);
});

// Each subpath is a program of its own, beside `stayhook` alone: a name that another subpath exports is no help.
test.each(subpaths)("a user can export everything that %s gives", async (subpath) => {
  expect(await errorsOf(newest, { ...modes[0]!, extensions: ["mts"] }, [subpath])).toBe("");
});

// The newest compiler is native. Each of the others takes half a minute for each module resolution, so only the soak runs them.
describe.each(Object.entries(compilers).filter(([, compiler]) => isSoak || compiler === newest))(
  "with %s",
  (_, compiler) => {
    test.each(modes)("a user can export everything: $moduleResolution", async (mode) => {
      expect(await errorsOf(compiler, mode, subpaths)).toBe("");
    });
  },
);

/**
 * Interfaces that never stand in a user's declarations, because the compiler resolves them, or because others only extend
 * them. All other interfaces of a signature have an exported name.
 */
const resolved = new Set([
  ...["EventBase", "RecordEventBase", "TimerEventBase", "WithoutTimer", "WithoutRecord", "WithoutStay"],
  ...["StayFields", "WebhookEventMap", "EventSource", "EventCarrier"],
]);

test.each(["d.ts", "d.cts"])("no signature shows a type without an exported name: %s", (extension) => {
  const { shown, exported } = namesIn(extension);
  expect([...shown].filter((name) => !exported.has(name) && !resolved.has(name))).toEqual([]);
  expect([...resolved].filter((name) => !shown.has(name) || exported.has(name))).toEqual([]);
});

/** Returns the names of the package's types in the signatures of exported types, and the names that are exported. */
function namesIn(extension: string) {
  const dist = join(consumer.directory, "node_modules/stayhook/dist");
  const files = subpaths.map((subpath) =>
    join(dist, `${subpath.replace(/^stayhook\/?/, "") || "index"}.${extension}`),
  );
  const options: ts.CompilerOptions = {
    module: ts.ModuleKind.Node16,
    strict: true,
    skipLibCheck: true,
    types: ["node"],
  };
  const program = ts.createProgram(files, {
    ...options,
    typeRoots: [join(consumer.directory, "node_modules/@types")],
  });
  const checker = program.getTypeChecker();
  const targetOf = (symbol: ts.Symbol) =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  const isOwn = ({ declarations }: ts.Symbol) =>
    declarations?.some((each) => each.getSourceFile().fileName.startsWith(dist)) ?? false;
  const exported = new Set(
    files.flatMap((file) => {
      const module = checker.getSymbolAtLocation(program.getSourceFile(file) as ts.SourceFile) as ts.Symbol;
      return checker.getExportsOfModule(module).map(targetOf);
    }),
  );
  const shown = new Set(exported);
  const visit = (node: ts.Node): void => {
    const name = nameOf(node);
    const symbol = name && checker.getSymbolAtLocation(name);
    const target = symbol && targetOf(symbol);
    // The compiler writes an alias without an exported name out.
    const writtenOut = ts.SymbolFlags.TypeParameter | ts.SymbolFlags.TypeAlias;
    if (target && isOwn(target) && (target.flags & writtenOut) === 0) shown.add(target);
    ts.forEachChild(node, visit);
  };
  // A set visits what is added to it meanwhile.
  for (const { declarations } of shown) declarations?.forEach(visit);
  const named = (symbols: Iterable<ts.Symbol>) => new Set([...symbols].map(({ name }) => name));
  return { shown: named(shown), exported: named(exported) };
}

function nameOf(node: ts.Node): ts.Node | undefined {
  if (ts.isTypeReferenceNode(node)) return node.typeName;
  if (ts.isTypeQueryNode(node)) return node.exprName;
  return ts.isExpressionWithTypeArguments(node) ? node.expression : undefined;
}
