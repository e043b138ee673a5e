import { join, relative } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import { subpaths } from "../subpaths.config.ts";

const root = join(import.meta.dirname, "..");
const source = join(root, "src");

/** Returns what a user sees of a subpath and has no TSDoc: exports, their members, and the types that these need. */
function undocumented(): string[] {
  const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const entries = Object.values(subpaths).map((path) => join(root, path));
  const program = ts.createProgram(entries, options);
  const checker = program.getTypeChecker();
  const seen = new Set<ts.Symbol>();
  const found: string[] = [];

  const resolved = (symbol: ts.Symbol): ts.Symbol =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;

  const check = (symbol: ts.Symbol, name: string): void => {
    if (symbol.getDocumentationComment(checker).length > 0) return;
    const [declaration] = symbol.declarations ?? [];
    const file = declaration?.getSourceFile();
    const line = file?.getLineAndCharacterOfPosition(declaration!.getStart()).line;
    found.push(`${relative(root, file?.fileName ?? "")}:${(line ?? 0) + 1} ${name}`);
  };

  const visitSymbol = (given: ts.Symbol): void => {
    const symbol = resolved(given);
    if (seen.has(symbol)) return;
    seen.add(symbol);
    const declarations = (symbol.declarations ?? []).filter(({ parent }) =>
      parent.getSourceFile().fileName.startsWith(source),
    );
    if (declarations.length === 0 || symbol.flags & ts.SymbolFlags.TypeParameter) return;
    for (const declaration of declarations) visit(declaration, symbol.name);
  };

  const isHidden = (node: ts.Node): boolean =>
    ts.isBlock(node) ||
    ts.isClassStaticBlockDeclaration(node) ||
    (ts.isClassElement(node) && node.name !== undefined && ts.isPrivateIdentifier(node.name)) ||
    (ts.canHaveModifiers(node) &&
      !!ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword));

  /** Whether a node implements an overloaded function, whose overloads are what a user sees. */
  const isImplementation = (node: ts.Node): boolean =>
    ts.isFunctionLike(node) &&
    "body" in node &&
    node.body !== undefined &&
    node.name !== undefined &&
    (checker.getSymbolAtLocation(node.name)?.declarations ?? []).length > 1;

  const visit = (node: ts.Node, owner: string): void => {
    if (isHidden(node) || isImplementation(node)) return;
    const isMember =
      ts.isPropertySignature(node) ||
      ts.isMethodSignature(node) ||
      ts.isPropertyDeclaration(node) ||
      ts.isMethodDeclaration(node) ||
      ts.isGetAccessor(node);
    if (isMember) {
      const symbol = checker.getSymbolAtLocation(node.name);
      if (symbol) check(symbol, `${owner}.${symbol.name}`);
    }
    if (ts.isTypeReferenceNode(node) || ts.isExpressionWithTypeArguments(node)) {
      const symbol = checker.getSymbolAtLocation(
        ts.isTypeReferenceNode(node) ? node.typeName : node.expression,
      );
      if (symbol) visitSymbol(symbol);
    }
    ts.forEachChild(node, (child) => visit(child, owner));
  };

  for (const entry of entries) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(entry)!)!;
    for (const symbol of checker.getExportsOfModule(module)) {
      check(resolved(symbol), symbol.name);
      visitSymbol(symbol);
    }
  }
  expect(seen.size).toBeGreaterThan(300);
  return found;
}

test("everything that a user can import has TSDoc, and so has each member of it", () => {
  expect(undocumented().join("\n")).toBe("");
});
