import { join } from "node:path";
import ts from "typescript";
import type { Consumer } from "./consumer.ts";

/**
 * Functions without an implementation that take a type apart. The compiler infers each result, so a declaration file
 * has to name it.
 */
const helpers = `declare function argumentOf<F extends (...args: never[]) => unknown, I extends number>(
  f: F,
  index: I,
): Parameters<F>[I];
declare function resultOf<F extends (...args: never[]) => unknown>(f: F): ReturnType<F>;
declare function instanceOf<T>(c: abstract new (...args: never[]) => T): T;
declare function awaited<T>(promise: PromiseLike<T>): T;
declare function elementOf<T>(list: readonly T[]): T;
declare function eachOf<T>(list: AsyncIterable<T>): T;
`;

/** Calls of functions with type parameters or several signatures. `resultOf` knows only their last signature. */
const calls: Readonly<Record<string, readonly string[]>> = {
  stayhook: [
    "memoryStore()",
    "memoryStore<Map<string, string>>({ transaction: (run) => run(new Map()) })",
    `new StayhookClient().request("GET", "/v2/rates")`,
    `new StayhookClient().request("GET", "/v2/rates", { schema: Booking })`,
    `new StayhookClient({ models: { booking: Booking, listing: Listing } })`,
    `createWebhookHandler({ client: new StayhookClient(), store: memoryStore(), on: {} })`,
    `createWebhookHandler({ client: new StayhookClient(), store: forwardTo(() => {}), on: {} })`,
  ],
  "stayhook/testing": [
    `createTestEvent("message")`,
    `createTestEvent("listing.Published", { listing: { city: "Porto" } })`,
    `createTestEvent("listing.timer.photos")`,
    `createTestEvent("booking.Request", { booking: { guest: "Ada" } })`,
    `createTestEvent("booking.timer.door-code", { tx: new Map<string, string>() })`,
  ],
};

/** The properties that tell the members of a union apart. */
const discriminants = ["kind", "type", "state"];

/** Far more than any value of the package has. */
const DEEPEST = 40;

interface Sweep {
  /** The module. */
  readonly text: string;
  /** The number of its exports. */
  readonly count: number;
}

/** The files of the package, its dependencies and TypeScript. All sweeps share them, because parsing takes longest. */
const parsed = new Map<string, ts.SourceFile | undefined>();

interface Found {
  readonly name: string;
  readonly type: ts.Type;
}

/**
 * Writes a module that exports everything that the values and types of a subpath give: members, arguments, results and
 * the members of unions. No export has an annotation. The module imports `stayhook`, because clients and handlers come
 * from there.
 */
export function sweepOf(consumer: Consumer, subpath: string): Sweep {
  const path = join(consumer.directory, "sweep.mts");
  const options: ts.CompilerOptions = {
    module: ts.ModuleKind.Node16,
    target: ts.ScriptTarget.ES2022,
    types: ["node"],
    typeRoots: [join(consumer.directory, "node_modules/@types")],
    strict: true,
    skipLibCheck: true,
    noEmit: true,
  };
  const host = ts.createCompilerHost(options);
  const read = host.getSourceFile;
  let text = "";
  host.getSourceFile = (name, version, ...rest) => {
    if (name === path) return ts.createSourceFile(name, text, version, true);
    if (!parsed.has(name)) parsed.set(name, read(name, version, ...rest));
    return parsed.get(name);
  };
  const exists = host.fileExists;
  host.fileExists = (name) => name === path || exists(name);

  const seen = new Set<string>();
  const lines: string[] = [];
  let count = 0;
  let program: ts.Program | undefined;
  const compiled = (added: readonly string[]): ts.Program => {
    lines.push(...added);
    text = `${helpers}${lines.join("\n")}\n`;
    program = ts.createProgram({ rootNames: [path], options, host, ...(program && { oldProgram: program }) });
    return program;
  };
  const exported = (expression: string): string => `export const e${count++} = ${expression};`;

  const roots = rootsOf(compiled([`import "${subpath}";`, 'import "stayhook";']), subpath, path, exported);
  let round = compiled([...roots, ...(calls[subpath] ?? []).map(exported)]);
  for (let depth = 0; depth < DEEPEST; depth++) {
    const next = newTypes(round, path, seen).flatMap(({ name, type }) =>
      partsOf(round.getTypeChecker(), name, type).map(exported),
    );
    if (next.length === 0) return { text, count };
    round = compiled(next);
  }
  throw new Error(`${subpath} gives types without end: ${lines.slice(-5).join("\n")}`);
}

/** Returns an import of each export, and a constant of each value and of each type. */
function rootsOf(
  program: ts.Program,
  subpath: string,
  path: string,
  exported: (expression: string) => string,
): string[] {
  const checker = program.getTypeChecker();
  const [imported] = (program.getSourceFile(path) as ts.SourceFile).statements.filter(ts.isImportDeclaration);
  const module = checker.getSymbolAtLocation((imported as ts.ImportDeclaration).moduleSpecifier);
  return checker.getExportsOfModule(module as ts.Symbol).flatMap((symbol) => {
    const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
    const target = isAlias ? checker.getAliasedSymbol(symbol) : symbol;
    const { name } = symbol;
    const isValue = (target.flags & ts.SymbolFlags.Value) !== 0;
    const isType = (target.flags & ts.SymbolFlags.Type) !== 0;
    return [
      `import { ${isValue ? "" : "type "}${name} } from "${subpath}";`,
      ...(isValue ? [exported(name)] : []),
      ...(isType && isComplete(target) ? [`declare const of${name}: ${name};`, exported(`of${name}`)] : []),
    ];
  });
}

/** Whether a type needs no type arguments. */
function isComplete(symbol: ts.Symbol): boolean {
  return (symbol.declarations ?? []).every((declaration) =>
    (ts.getEffectiveTypeParameterDeclarations(declaration as ts.DeclarationWithTypeParameters) ?? []).every(
      (parameter) => parameter.default !== undefined,
    ),
  );
}

function newTypes(program: ts.Program, path: string, seen: Set<string>): Found[] {
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(path) as ts.SourceFile;
  const found: Found[] = [];
  for (const statement of source.statements) {
    if (!ts.isVariableStatement(statement)) continue;
    for (const declaration of statement.declarationList.declarations) {
      const name = declaration.name.getText();
      const type = checker.getTypeAtLocation(declaration);
      const key = checker.typeToString(
        type,
        undefined,
        ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.UseFullyQualifiedType,
      );
      if (!/^e\d+$/.test(name) || seen.has(key)) continue;
      seen.add(key);
      found.push({ name, type });
    }
  }
  return found;
}

/** Returns expressions for the parts of the value `name`. */
function partsOf(checker: ts.TypeChecker, name: string, whole: ts.Type): string[] {
  const type = checker.getNonNullableType(whole);
  if (type !== whole) return [`${name}!`];
  if (type.isUnion()) return membersOf(checker, name, type);
  if ((type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) === 0) return [];
  const properties = type.getProperties();
  const has = (property: string) => properties.some((each) => each.name === property);
  const isNameable = (property: string) => !/^(#|__#|__@)/.test(property);
  const own = properties.filter(
    (property) => isNameable(property.name) && property.declarations?.some(isOfPackage),
  );
  return [
    ...own.map((property) => `${name}[${JSON.stringify(property.name)}]`),
    ...(type.getConstructSignatures().length > 0 ? [`instanceOf(${name})`] : []),
    ...type
      .getCallSignatures()
      .slice(0, 1)
      .flatMap(({ parameters }) => [
        `resultOf(${name})`,
        ...parameters.slice(0, 3).map((_, index) => `argumentOf(${name}, ${index})`),
      ]),
    ...(has("then") ? [`awaited(${name})`] : []),
    ...(checker.isArrayLikeType(type) ? [`elementOf(${name})`] : []),
    ...(properties.some((each) => each.name.startsWith("__@asyncIterator")) ? [`eachOf(${name})`] : []),
  ];
}

function membersOf(checker: ts.TypeChecker, name: string, type: ts.UnionType): string[] {
  const objects = type.types.filter((member) => (member.flags & ts.TypeFlags.Object) !== 0);
  const functions = objects.filter((member) => member.getCallSignatures().length > 0);
  const isDiscriminant = (property: string) =>
    type.types.every((member) => member.getProperty(property) !== undefined);
  const [property] = discriminants.filter(isDiscriminant);
  const parts = property === undefined ? [] : valuesOf(checker, type, property);
  return [
    ...parts.map(
      (value) => `(() => { const it = ${name}; if (it.${property} === ${value}) return it; throw 0; })()`,
    ),
    ...(functions.length > 0
      ? [`(() => { const it = ${name}; if (typeof it === "function") return it; throw 0; })()`]
      : []),
    ...(objects.length > functions.length && objects.length < type.types.length
      ? [`(() => { const it = ${name}; if (typeof it === "object") return it; throw 0; })()`]
      : []),
  ];
}

function valuesOf(checker: ts.TypeChecker, type: ts.UnionType, property: string): string[] {
  const values = type.types.flatMap((member) => {
    const of = checker.getTypeOfSymbol(member.getProperty(property) as ts.Symbol);
    return of.isUnion() ? of.types : [of];
  });
  const literals = values.filter(
    (value) => value.isStringLiteral() || (value.flags & ts.TypeFlags.BooleanLiteral) !== 0,
  );
  return [...new Set(literals.map((value) => checker.typeToString(value)))];
}

function isOfPackage(declaration: ts.Declaration): boolean {
  return declaration.getSourceFile().fileName.includes("/node_modules/stayhook/");
}
