import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CompilerState, Extractor, ExtractorConfig, ExtractorLogLevel } from "@microsoft/api-extractor";
import { subpaths } from "../subpaths.config.ts";

const root = join(import.meta.dirname, "..");

/** The folder of the reports, one for each subpath. In a review they show changes of the public API. */
export const reports = join(root, "api");

const declarationsOf = (subpath: string): string => join(root, `dist/${subpath}.d.ts`);

/** All reports share one TypeScript program, because making one takes longer than a report. */
let compilerState: CompilerState | undefined;

/**
 * Writes the public API of a subpath from its built declarations to `into`.
 *
 * @returns the file's name
 */
export function reportApi(subpath: string, into: string): string {
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
