import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { beforeAll, describe, expect, test } from "vitest";
import { type Consumer, installed } from "./support/consumer.ts";
import { manifest, root, subpaths } from "./support/pack.ts";

// The newest compiler is native and by far the fastest, so it checks the full matrix of projects and the declarations.
// The oldest compiler and this repository's compiler check the same files once.
const compilers = {
  "the oldest TypeScript": "test/heavy/node_modules/typescript",
  "this repository's TypeScript": "node_modules/typescript",
  "the newest TypeScript": "node_modules/typescript-newest",
};
const newest = compilers["the newest TypeScript"];

const node16 = { module: "node16", moduleResolution: "node16" };
const bundler = { module: "esnext", moduleResolution: "bundler" };
const web = { lib: ["ES2023", "DOM"], types: [] };
const node = { lib: ["ES2023"], types: ["node"] };

let consumer: Consumer;
beforeAll(async () => {
  const types = ["@types/node", "undici", "undici-types", "@opentelemetry/api"];
  consumer = await installed(["ky", "uuid", "zod", "valibot", "arktype", "pg", "ioredis", "msw", ...types]);
});

/** Copies fixtures under another extension. */
function copies(extension: string, ...fixtures: readonly string[]): string[] {
  return fixtures.map((fixture) => consumer.copy(`${fixture}.ts`, `${fixture}.${extension}`));
}

/** Returns the errors of a strict project. The project emits declarations, so each exported type needs a name. */
async function check(compiler: string, files: readonly string[], options: object): Promise<string> {
  const compilerOptions = {
    target: "es2022",
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    declaration: true,
    outDir: join(consumer.directory, "out"),
    ...options,
  };
  const project = consumer.write("tsconfig.json", JSON.stringify({ compilerOptions, files }));
  const ran = await consumer.node(join(root, compiler, "bin/tsc"), "--pretty", "false", "-p", project);
  return ran.code === null ? "the compiler took too long" : ran.stdout + ran.stderr;
}

describe.each([
  ["node16, with the web's types alone", node16, ["mts", "cts"], web, ["core", "models"]],
  ["node16, with Node's types alone", node16, ["mts", "cts"], node, ["server", "declared", "callbacks"]],
  ["node16, with a model of arktype", node16, ["mts"], node, ["arktype"]],
  ["a bundler, with the web's types alone", bundler, ["ts"], web, ["core", "models"]],
  [
    "a bundler, with Node's types alone",
    bundler,
    ["ts"],
    node,
    ["server", "declared", "callbacks", "arktype"],
  ],
] as const)("a project for %s", (_, modules, extensions, environment, fixtures) => {
  test("compiles, the package's declarations too", async () => {
    const files = extensions.flatMap((extension) => copies(extension, ...fixtures));
    expect(await check(newest, files, { ...modules, ...environment, skipLibCheck: false })).toBe("");
  });
});

test.each(Object.entries(compilers))(
  "%s takes correct programs, and names each mistake",
  async (_, compiler) => {
    const good = ["mts", "cts"].flatMap((extension) =>
      copies(extension, "core", "models", "server", "callbacks"),
    );
    const [bad = ""] = copies("mts", "mistakes");
    const settings = { ...node16, lib: ["ES2023", "DOM"], types: ["node"], skipLibCheck: true };
    const output = await check(compiler, [...good, ...copies("mts", "declared", "arktype"), bad], settings);
    const found = output.split(/^(?=\S+\(\d+,\d+\): error)/m).map((text) => ({
      line: Number(/^mistakes\.mts\((\d+),/.exec(text)?.[1]),
      text: text.trim(),
    }));
    const lines = readFileSync(bad, "utf8").split("\n");
    const mistakes = lines.flatMap((text, index) => {
      const [, message] = /^\s*\/\/ error: (.*)/.exec(text) ?? [];
      return message === undefined ? [] : [{ line: index + 2, text: expect.stringContaining(message) }];
    });
    expect(mistakes.length).toBeGreaterThan(20);
    expect(found).toEqual(mistakes);
  },
);

test("a project with moduleResolution node10 sees one declaration of each class", async () => {
  const file = consumer.write(
    "old.ts",
    `import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
    import { createReconciler } from "stayhook/reconcile";
    import { createTestEvent } from "stayhook/testing";
    export const eventId: string = createTestEvent("unknown").eventId;
    const client = new StayhookClient({ baseUrl: "https://api.example.com", accessToken: "token" });
    export const reconciler = createReconciler(createWebhookHandler({ client, store: memoryStore(), on: {} }), {});`,
  );
  const settings = { module: "commonjs", moduleResolution: "node10", ...node, skipLibCheck: true };
  // Newer compilers have no node10. In node10, TypeScript does not find the types of some packages, such as zod.
  expect(await check(compilers["the oldest TypeScript"], [file], settings)).toBe("");
});

describe("for this repository's TypeScript", () => {
  const sources = new Map<string, ts.SourceFile | undefined>();

  /** Makes a program. Programs with the same `module` setting share parsed files, to save time. */
  function programOf(files: readonly string[], settings: ts.CompilerOptions): ts.Program {
    const options: ts.CompilerOptions = {
      target: ts.ScriptTarget.ES2022,
      types: ["node"],
      typeRoots: [join(consumer.directory, "node_modules/@types")],
      strict: true,
      skipLibCheck: true,
      ...settings,
    };
    const host = ts.createCompilerHost(options);
    const read = host.getSourceFile;
    host.getSourceFile = (name, version, ...rest) => {
      const key = `${options.module} ${name}`;
      if (!sources.has(key)) sources.set(key, read(name, version, ...rest));
      return sources.get(key);
    };
    return ts.createProgram({ rootNames: files, options, host });
  }

  const esm: ts.CompilerOptions = { module: ts.ModuleKind.Node16 };
  const bundled = { module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler };

  const firstApp = () => /```ts\n(.*?)```/s.exec(readFileSync(join(root, "README.md"), "utf8"))?.[1] ?? "";
  const ownModel = `import { Booking, createWebhookHandler, StayhookClient } from "stayhook";
    import { sqliteStore } from "stayhook/sqlite";
    import { z } from "zod";
    const MyBooking = Booking.extend({ guestName: z.string() });
    const access = { baseUrl: "https://h.example", accessToken: "t" };
    const client = new StayhookClient({ ...access, models: { booking: MyBooking } });
    createWebhookHandler({ client, store: sqliteStore("events.db"), on: {
      "booking.Initiated": ({ booking }) => booking.bookingCode,
      "booking.Request": ({ booking, decideBy }) => [booking.bookingCode, decideBy],
      "booking.Confirmed": ({ booking, atomically }) => atomically((tx) => tx.exec(booking.guestName)),
      "booking.Declined": ({ booking }) => booking.bookingCode,
      "booking.Cancelled": async ({ booking, status }) => [booking.checkIn, status],
      "booking.unknown": ({ booking }) => booking.bookingCode,
      "listing.InReview": ({ listing }) => listing.listingId,
      "listing.Published": ({ listing }) => listing.listingId,
      "listing.Hidden": ({ listing }) => listing.listingId,
      "listing.unknown": ({ listing }) => listing.listingId,
      message: ({ topic }) => topic,
      unknown: ({ eventId }) => eventId,
      fallback: (event) => event.type === "booking.Request" && event.booking.guestName,
    } });
    createWebhookHandler({ client: new StayhookClient(access), store: sqliteStore("events.db"), on: {
      "booking.Confirmed": (event) => event,
    } });`;

  // Measured instantiations: 2,818 and 8,215, of which the check of the keys of `on` takes 450 and 1,100. `import * as z` would add 1,830 in node16: see `BookingSchema`. The names
  // of tracked fields in each event cost half of them.
  test.each([
    ["the README's first app", firstApp, 3_000],
    ["an app with every event, a model of its own, and SQLite", () => ownModel, 8_500],
  ])("%s costs few type instantiations", (_, code, limit) => {
    const file = consumer.write("app.mts", code());
    sources.clear();
    for (const settings of [esm, bundled]) {
      const program = programOf([file], settings);
      expect(program.getSemanticDiagnostics(program.getSourceFile(file))).toEqual([]);
      expect(program.getInstantiationCount()).toBeLessThanOrEqual(limit);
    }
  });

  test("hovers name a type, and each key of `on` has its sentence", () => {
    const file = consumer.write("hovered.mts", ownModel);
    const program = programOf([file], esm);
    const checker = program.getTypeChecker();
    const source = program.getSourceFile(file) as ts.SourceFile;
    const parameters: ts.ParameterDeclaration[] = [];
    const keys = new Map<string, string>();
    const visit = (each: ts.Node): void => {
      if (ts.isParameter(each)) parameters.push(each);
      if (ts.isPropertyAssignment(each) && ts.isArrowFunction(each.initializer)) {
        const on = checker.getContextualType(each.parent);
        const property = on?.getProperty(each.name.getText().replaceAll('"', ""));
        const sentence = property?.getDocumentationComment(checker);
        keys.set(each.name.getText(), ts.displayPartsToString(sentence));
      }
      ts.forEachChild(each, visit);
    };
    visit(source);
    const event = parameters.at(-1) as ts.ParameterDeclaration;
    const type = checker.getTypeAtLocation(event);
    expect(checker.typeToString(type, event)).toBe(
      'BookingStatusEvent<"Confirmed", Booking, never> & Transactional<SqliteTransaction>',
    );
    expect(keys.size).toBe(13);
    for (const [key, sentence] of keys) expect(sentence, key).toMatch(/^[A-Z].*\.$/s);
  });

  const declarations = () =>
    readdirSync(join(consumer.directory, "node_modules/stayhook/dist"), {
      recursive: true,
      withFileTypes: true,
    })
      .filter(({ name }) => name.endsWith(".d.ts"))
      .map((entry) => join(entry.parentPath, entry.name));

  // These members only constrain or infer a type, so no user sees their hover. An error's `code` has the hover of
  // `StayhookError.code`, which it overrides.
  const unseen =
    /^(NotificationSchema|WebhookConfigSchema|StandardIssue\.path|SynchronousTransaction|GivenRecord|createWebhookHandler\.options)\b|Error\.(name|code)$/;

  test("every public member has its sentence", () => {
    const mute: string[] = [];
    for (const file of declarations()) {
      const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.Latest, true);
      const visit = (each: ts.Node): void => {
        const isMember =
          ts.isPropertySignature(each) ||
          ts.isMethodSignature(each) ||
          ts.isPropertyDeclaration(each) ||
          ts.isMethodDeclaration(each);
        if (isMember && !isDescribed(each) && !unseen.test(pathOf(each))) mute.push(pathOf(each));
        ts.forEachChild(each, visit);
      };
      visit(source);
    }
    expect(mute).toEqual([]);
  });

  describe("each subpath", () => {
    let program: ts.Program;
    let files: readonly string[];
    beforeAll(() => {
      files = subpaths.map((subpath) => {
        const target = manifest.exports[subpath.replace("stayhook", ".")];
        if (typeof target !== "object") throw new Error(`${subpath} has no entry`);
        return join(consumer.directory, "node_modules/stayhook", target.import?.types ?? "");
      });
      program = programOf(files, esm);
    });

    test.each([
      ["mjs", "import"],
      ["cjs", "require"],
    ])("exports the values that TypeScript sees: %s", async (extension, load) => {
      const seen = subpaths.map((subpath, index) => [
        subpath,
        valuesOf(program, files[index] as string).sort(),
      ]);
      const script = `Promise.all(${JSON.stringify(subpaths)}.map(async (subpath) =>
          [subpath, Object.keys(await ${load}(subpath)).sort()])).then((keys) => console.log(JSON.stringify(keys)));`;
      const ran = await consumer.node(consumer.write(`keys.${extension}`, script));
      expect(JSON.parse(ran.stdout || ran.stderr)).toEqual(seen);
    });

    test("exports no name of a DOM global, which an import would hide", () => {
      const dom = ts.createProgram([consumer.write("dom.ts", "export {};")], {
        lib: ["lib.dom.d.ts"],
        types: [],
      });
      const checker = dom.getTypeChecker();
      const globals = checker.getSymbolsInScope(
        dom.getSourceFiles().at(-1)!,
        ts.SymbolFlags.Type | ts.SymbolFlags.Value,
      );
      const names = new Set(globals.map(({ name }) => name));
      expect(names).toContain("Notification");
      const exported = files.flatMap((file) => exportsOf(program, file).map(({ name }) => name));
      expect(exported).toContain("WebhookNotification");
      expect(exported.filter((name) => names.has(name))).toEqual([]);
    });
  });
});

/**
 * Tells whether a member has a description or needs none. A member needs none if its type is `undefined`, if it is
 * private, or if it is the discriminant `kind`.
 */
function isDescribed(
  member: ts.PropertySignature | ts.MethodSignature | ts.PropertyDeclaration | ts.MethodDeclaration,
) {
  const name = member.name.getText();
  return (
    ts.getJSDocCommentsAndTags(member).length > 0 ||
    member.type?.getText() === "undefined" ||
    name === "kind" ||
    name.startsWith("#") ||
    (ts.getCombinedModifierFlags(member) & ts.ModifierFlags.Private) > 0
  );
}

/** Returns a path such as `WebhookHandler.close.options.timeout`. */
function pathOf(node: ts.Node): string {
  const names: string[] = [];
  for (let each = node; each && !ts.isSourceFile(each); each = each.parent)
    if ("name" in each) names.unshift((each.name as ts.Node).getText());
  return names.join(".");
}

function exportsOf(program: ts.Program, file: string): ts.Symbol[] {
  const checker = program.getTypeChecker();
  return checker.getExportsOfModule(
    checker.getSymbolAtLocation(program.getSourceFile(file) as ts.Node) as ts.Symbol,
  );
}

/** Returns the names that the declarations of a module export as values. */
function valuesOf(program: ts.Program, file: string): string[] {
  const exported = exportsOf(program, file).filter((symbol) => {
    const isTypeOnly = symbol.declarations?.some((each) => ts.isTypeOnlyImportOrExportDeclaration(each));
    const isAlias = symbol.flags & ts.SymbolFlags.Alias;
    const target = isAlias ? program.getTypeChecker().getAliasedSymbol(symbol) : symbol;
    return !isTypeOnly && target.flags & ts.SymbolFlags.Value;
  });
  return exported.map(({ name }) => name);
}
