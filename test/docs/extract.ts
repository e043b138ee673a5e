import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = new URL("../../", import.meta.url);
const generated = new URL("./generated/given/", import.meta.url);

/** Documents whose blocks have all their imports. */
export const standing = [
  "README.md",
  "docs/events.md",
  "docs/handler.md",
  "docs/production.md",
  "docs/security.md",
];

/** Documents whose blocks use names that the text around them introduces. */
export const documents = [
  "docs/client.md",
  "docs/custom-store.md",
  "docs/stores/sqlite.md",
  "docs/stores/postgresql.md",
  "docs/stores/mysql.md",
  "docs/stores/redis.md",
  "docs/telemetry.md",
];

/** Modules that replace the imports of blocks. */
const standIns: Readonly<Record<string, string>> = {
  '"node:test"': '"../../runner.ts"',
  '"vitest"': '"../../runner.ts"',
  '"pino"': '"../../loggers.ts"',
  '"winston"': '"../../loggers.ts"',
  '"@sentry/node"': '"../../sentry.ts"',
};

export interface Block {
  readonly document: string;
  /** The name in the comment above the block: `<!-- block: name -->`. */
  readonly name: string | undefined;
  /** The name in `<!-- file: name.ts -->`. The block is a part of that file, which other blocks import. */
  readonly file: string | undefined;
  readonly line: number;
  readonly code: string;
}

export function extractBlocks(of: readonly string[] = documents): Block[] {
  return of.flatMap((document) => {
    const lines = readFileSync(new URL(document, root), "utf8").split("\n");
    const blocks: Block[] = [];
    for (let start = 0; start < lines.length; start += 1) {
      if (!/^```(ts|js|typescript|javascript)/.test(lines[start] as string)) continue;
      const end = lines.indexOf("```", start);
      const above = lines[start - 1] ?? "";
      const name = /^<!-- block: ([a-z-]+) -->$/.exec(above)?.[1];
      const file = /^<!-- file: ([a-z-]+\.ts) -->$/.exec(above)?.[1];
      blocks.push({ document, name, file, line: start + 1, code: lines.slice(start + 1, end).join("\n") });
      start = end;
    }
    return blocks;
  });
}

/** Joins the blocks of each file in their order. */
export function extractFiles(): Map<string, string> {
  const files = new Map<string, string>();
  for (const { file, code } of extractBlocks()) {
    if (file !== undefined) files.set(file, `${files.get(file) ?? ""}${code}\n\n`);
  }
  return files;
}

/**
 * Makes a module of each block. The module has the imports of the block and a function around the rest. The function
 * receives the names that the text introduces. The module uses temporary files instead of events.db and backup.db.
 */
export function generateModules(given: (name: string) => readonly string[]): Map<string, string> {
  rmSync(generated, { recursive: true, force: true });
  mkdirSync(generated, { recursive: true });
  const files = new Map<string, string>();
  for (const [file, code] of extractFiles())
    writeFileSync(new URL(file, generated), code.replace(/^import .*$/gm, withStandIn));
  for (const { name, code } of extractBlocks()) {
    if (name === undefined) continue;
    const file = fileURLToPath(new URL(`${name}.ts`, generated));
    writeFileSync(file, moduleOf(code, given(name)));
    files.set(name, file);
  }
  return files;
}

function withStandIn(line: string): string {
  return line.replace(/"[^"]+"/, (from) => standIns[from] ?? from);
}

function moduleOf(code: string, given: readonly string[]): string {
  const imports: string[] = [];
  const exported: string[] = [];
  const body = code
    .split("\n")
    .filter((line) => !(line.startsWith("import ") && imports.push(withStandIn(line))))
    .map((line) =>
      line.replace(/^export (async function (\w+))/, (_, declaration: string, name: string) => {
        exported.push(name);
        return declaration;
      }),
    )
    .join("\n")
    .replaceAll('"events.db"', "given.database")
    .replaceAll('"backup.db"', "given.backup");
  return `${imports.join("\n")}
import type { Given } from "../../given.ts";

export async function run(given: Given) {
  const { ${given.join(", ")} } = given;
  async function block() {
${body}
    return { ${exported.join(", ")} };
  }
  return block();
}
`;
}
