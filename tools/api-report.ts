import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { CompilerState, Extractor, ExtractorConfig, ExtractorLogLevel } from "@microsoft/api-extractor";
import { subpaths } from "../subpaths.config.ts";

const root = join(import.meta.dirname, "..");

/** The folder of the reports, one for each subpath. In a review they show changes of the public API. */
export const reports = join(root, "api");

const declarationsOf = (subpath: string): string => join(root, `dist/${subpath}.d.ts`);

/** All reports share one TypeScript program, because making one takes longer than a report. */
let compilerState: CompilerState | undefined;

/**
 * Writes the public API of each subpath from its built declarations to `into`. A declaration stands in one report: in
 * that of the first subpath that exports it, or, if none does, of the first that needs it. The other reports name it if
 * they export it.
 */
export function reportApis(into: string): void {
  mkdirSync(into, { recursive: true });
  const all = Object.keys(subpaths).map((subpath) => partsOf(join(into, reportApi(subpath, into))));
  const homes = new Map<string, string>();
  for (const exporting of [true, false]) {
    for (const { file, declarations } of all) {
      for (const text of declarations.filter((each) => isExported(each) === exporting)) {
        const key = withoutExport(text);
        if (!homes.has(key)) homes.set(key, basename(file));
      }
    }
  }
  for (const { file, head, declarations, tail } of all) {
    const homeOf = (text: string): string => homes.get(withoutExport(text)) as string;
    const own = declarations.filter((text) => homeOf(text) === basename(file));
    const elsewhere = declarations.filter((text) => homeOf(text) !== basename(file) && isExported(text));
    const named = Map.groupBy(elsewhere, homeOf);
    const references = [...named].map(
      ([home, texts]) => `// See ${home}\nexport { ${texts.map(nameOf).join(", ")} }`,
    );
    const body = [...own, ...references, ...tail].join("\n\n");
    const imports = head.filter((line) => {
      const [, name] = /^import (?:type )?(?:\{ |\* as )?(?:\w+ as )?(\w+)/.exec(line) ?? [];
      return name === undefined || new RegExp(`\\b${name}\\b`).test(body);
    });
    writeFileSync(file, `${imports.join("\n")}\n${body}`);
  }
}

/** Splits a report into the lines before its declarations, the declarations, and the paragraphs after them. */
function partsOf(file: string) {
  const paragraphs = readFileSync(file, "utf8").split("\n\n");
  const isDeclaration = (text: string): boolean => /^\/\/ @\w+/.test(text);
  const first = paragraphs.findIndex(isDeclaration);
  const last = paragraphs.findLastIndex(isDeclaration);
  return {
    file,
    head: `${paragraphs.slice(0, first).join("\n\n")}\n`.split("\n"),
    declarations: paragraphs.slice(first, last + 1),
    tail: paragraphs.slice(last + 1),
  };
}

const exporting =
  /^export (?=(?:declare |abstract |default )*(?:class|const|enum|function|interface|namespace|type) )/m;
const isExported = (declaration: string): boolean => exporting.test(declaration);
const withoutExport = (declaration: string): string => declaration.replace(exporting, "");
const nameOf = (declaration: string): string =>
  /^export (?:(?:declare|abstract) )*\w+ (\w+)/m.exec(declaration)?.[1] ?? declaration;

/** Returns the name of the file that it writes. */
function reportApi(subpath: string, into: string): string {
  const name = subpath.replaceAll("/", "-");
  const temporary = mkdtempSync(join(tmpdir(), "stayhook-api-"));
  const config = ExtractorConfig.prepare({
    configObject: {
      projectFolder: root,
      mainEntryPointFilePath: declarationsOf(subpath),
      compiler: { tsconfigFilePath: join(root, "tsconfig.json"), skipLibCheck: true },
      apiReport: {
        enabled: true,
        reportFileName: `${name}.api.md`,
        reportFolder: into,
        reportTempFolder: temporary,
        includeForgottenExports: true,
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      newlineKind: "lf",
      messages: {
        compilerMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
        extractorMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
        tsdocMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
      },
    },
    configObjectFullPath: undefined,
    packageJsonFullPath: join(root, "package.json"),
  });
  compilerState ??= CompilerState.create(config, {
    additionalEntryPoints: Object.keys(subpaths).map(declarationsOf),
  });
  Extractor.invoke(config, {
    compilerState,
    localBuild: true,
    showVerboseMessages: false,
    messageCallback: (message) => {
      message.handled = true;
    },
  });
  rmSync(temporary, { recursive: true });
  return `${name}.api.md`;
}
