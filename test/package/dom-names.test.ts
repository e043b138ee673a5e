import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import { subpaths } from "../../subpaths.config.ts";
import { root } from "./support/pack.ts";

/** Returns the global names of the web types. An import of the same name would hide the global. */
function globalNames(): Set<string> {
  const library = join(dirname(createRequire(import.meta.url).resolve("typescript")), "lib.dom.d.ts");
  const source = ts.createSourceFile(library, ts.sys.readFile(library) ?? "", ts.ScriptTarget.Latest);
  const names = source.statements.flatMap((statement) =>
    ts.isVariableStatement(statement)
      ? statement.declarationList.declarations.map(({ name }) => name.getText(source))
      : [(statement as ts.DeclarationStatement).name?.getText(source) ?? ""],
  );
  return new Set(names);
}

test("no export of any subpath has the name of a DOM global", () => {
  const globals = globalNames();
  expect(globals).toContain("Notification");
  expect(globals).toContain("RequestInfo");
  const files = Object.values(subpaths).map((path) => join(root, path));
  const program = ts.createProgram(files, {
    allowImportingTsExtensions: true,
    noEmit: true,
    noResolve: false,
  });
  const checker = program.getTypeChecker();
  const exported = files.flatMap((file) => {
    const symbol = checker.getSymbolAtLocation(program.getSourceFile(file) as ts.Node);
    return checker.getExportsOfModule(symbol as ts.Symbol).map(({ name }) => name);
  });
  expect(exported).toContain("WebhookNotification");
  expect(exported.filter((name) => globals.has(name))).toEqual([]);
}, 60_000);
