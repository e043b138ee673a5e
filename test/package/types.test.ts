import { join } from "node:path";
import ts from "typescript";
import { beforeAll, describe, expect, test } from "vitest";
import { type Consumer, installed } from "./support/consumer.ts";
import { manifest, root, subpaths } from "./support/pack.ts";

let consumer: Consumer;
beforeAll(async () => {
  const types = ["typescript", "@types/node", "undici-types", "@opentelemetry/api"];
  consumer = await installed(["ky", "uuid", "zod", "valibot", "arktype", "pg", "ioredis", "msw", ...types]);
}, 300_000);

const settings = {
  "ESM, node16": { extension: "mts", module: "node16", moduleResolution: "node16" },
  "CommonJS, node16": { extension: "cts", module: "node16", moduleResolution: "node16" },
  "a bundler": { extension: "ts", module: "esnext", moduleResolution: "bundler" },
};

describe.each(Object.entries(settings))("a project as %s", (_, { extension, ...resolution }) => {
  // What it exports is to be declared, so that each type must have a name that others can say.
  const said = (fixtures: readonly string[], environment: object): Promise<string> => {
    const files = fixtures.map((fixture) => consumer.copy(`${fixture}.ts`, `${fixture}.${extension}`));
    return check(files, { ...resolution, ...environment, declaration: true });
  };

  test("takes all of stayhook, and models of zod and valibot, with the web's types alone", async () => {
    expect(await said(["core", "models"], { lib: ["ES2023", "DOM"], types: [] })).toBe("");
  }, 300_000);

  test("takes every subpath, and models of arktype, with Node's types alone", async () => {
    // arktype is ESM only.
    const arktype = extension === "cts" ? [] : ["arktype"];
    const fixtures = ["server", "declared", "callbacks", ...arktype];
    expect(await said(fixtures, { lib: ["ES2023"], types: ["node"] })).toBe("");
  }, 300_000);
});

test("a project with moduleResolution node10 sees one declaration of each class", async () => {
  const file = consumer.write(
    "old.ts",
    `import { createWebhookHandler, memoryStore, type StayhookClient } from "stayhook";
    import { createReconciler } from "stayhook/reconcile";
    import { createTestEvent } from "stayhook/testing";
    export const client: StayhookClient = createTestEvent("unknown").client;
    export const reconciler = createReconciler(createWebhookHandler({ client, store: memoryStore(), on: {} }), {});`,
  );
  const settings = { module: "commonjs", moduleResolution: "node10", ignoreDeprecations: "6.0" };
  // Other packages, such as zod, have types that node10 does not find.
  expect(await check([file], { ...settings, lib: ["ES2023"], types: ["node"], skipLibCheck: true })).toBe("");
}, 300_000);

test("the error for a model without a status says so in its last line", async () => {
  const file = consumer.write(
    "wrong.mts",
    `import { StayhookClient } from "stayhook";
    import * as z from "zod";
    const booking = z.object({ bookingCode: z.string() });
    new StayhookClient({ baseUrl: "https://h.example", accessToken: "t", models: { booking } });`,
  );
  const settings = { module: "node16", moduleResolution: "node16", lib: ["ES2023", "DOM"], types: [] };
  const lines = (await check([file], settings)).trim().split("\n");
  expect(lines.at(-1)).toContain("Property 'status' is missing in type '{ bookingCode: string; }'");
  expect(lines.length).toBeLessThanOrEqual(6);
}, 300_000);

describe("the event of a callback", () => {
  const code = `import { Booking, createWebhookHandler, StayhookClient } from "stayhook";
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
    createWebhookHandler({ client: new StayhookClient(access), store: sqliteStore("events.db"), on: {} });
    export type On = import("stayhook").WebhookCallbacks;
    export type Confirmed = Parameters<NonNullable<On["booking.Confirmed"]>>[0];`;
  let program: ts.Program;
  let file: ts.SourceFile;
  beforeAll(() => {
    const path = consumer.write("events.mts", code);
    program = ts.createProgram([path], {
      module: ts.ModuleKind.Node16,
      target: ts.ScriptTarget.ES2022,
      types: ["node"],
      typeRoots: [join(consumer.directory, "node_modules/@types")],
      strict: true,
      skipLibCheck: true,
    });
    file = program.getSourceFile(path) as ts.SourceFile;
  }, 300_000);
  const typeOf = (name: string): ts.Type => {
    const declared = file.statements.find(
      (each) => ts.isTypeAliasDeclaration(each) && each.name.text === name,
    ) as ts.TypeAliasDeclaration;
    return program.getTypeChecker().getTypeAtLocation(declared.name);
  };

  test("costs the compiler little, however many there are", () => {
    expect(program.getSemanticDiagnostics(file)).toEqual([]);
    // 2,228 when this was written. `import * as z` adds 1,830: see `BookingSchema`.
    expect(program.getInstantiationCount()).toBeLessThanOrEqual(2_500);
  });

  test("has a type that says which event it is, with the client last", () => {
    const confirmed = typeOf("Confirmed");
    expect(program.getTypeChecker().typeToString(confirmed)).toBe(
      'BookingEventOf<"Confirmed", Booking, Listing>',
    );
    expect(confirmed.getProperties().at(-1)?.name).toBe("client");
  });

  test("is described at each key of `on`", () => {
    const keys = typeOf("On").getProperties();
    expect(keys).toHaveLength(13);
    for (const key of keys)
      expect(
        ts.displayPartsToString(key.getDocumentationComment(program.getTypeChecker())),
        key.name,
      ).not.toBe("");
  });
});

test("the values that TypeScript sees are those that each subpath exports", async () => {
  const files = subpaths.map((subpath) => {
    const target = manifest.exports[subpath.replace("stayhook", ".")];
    if (typeof target !== "object") throw new Error(`${subpath} has no entry`);
    return join(consumer.directory, "node_modules/stayhook", target.import?.types ?? "");
  });
  const program = ts.createProgram(files, { module: ts.ModuleKind.Node16 });
  const seen = subpaths.map((subpath, index) => [subpath, valuesOf(program, files[index] as string).sort()]);
  const script = `const keys = ${JSON.stringify(subpaths)}.map(async (subpath) =>
      [subpath, Object.keys(await import(subpath)).sort()]);
    console.log(JSON.stringify(await Promise.all(keys)));`;
  const ran = await consumer.node(consumer.write("keys.mjs", script));
  expect(seen).toEqual(JSON.parse(ran.stdout));
}, 300_000);

/** The names that a module exports as values, by its declarations. */
function valuesOf(program: ts.Program, file: string): string[] {
  const checker = program.getTypeChecker();
  const module = checker.getSymbolAtLocation(program.getSourceFile(file) as ts.Node) as ts.Symbol;
  const exported = checker.getExportsOfModule(module).filter((symbol) => {
    const isTypeOnly = symbol.declarations?.some((each) => ts.isTypeOnlyImportOrExportDeclaration(each));
    const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    return !isTypeOnly && target.flags & ts.SymbolFlags.Value;
  });
  return exported.map(({ name }) => name);
}

/** What the compiler has to say, in all its strictness, about files. */
async function check(files: readonly string[], options: object): Promise<string> {
  const compilerOptions = {
    target: "es2022",
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: false,
    outDir: join(consumer.directory, "out"),
    ...options,
  };
  const project = consumer.write("tsconfig.json", JSON.stringify({ compilerOptions, files }));
  const ran = await consumer.node(join(root, "node_modules/typescript/bin/tsc"), "-p", project);
  return ran.code === null ? "the compiler took too long" : ran.stdout + ran.stderr;
}
