import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { TransformerTwoslashIndexOptions } from "@shikijs/twoslash";
import ts from "typescript";
import type { MarkdownRenderer } from "vitepress";

const root = fileURLToPath(new URL("../../", import.meta.url));
const { config } = ts.readConfigFile(resolve(root, "tsconfig.json"), ts.sys.readFile);
const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);

/** Types on hover. The tests in test/docs report errors in the blocks; the site only shows types. */
export const twoslashOptions: TransformerTwoslashIndexOptions = {
  explicitTrigger: true,
  throws: false,
  twoslashOptions: {
    vfsRoot: root,
    compilerOptions: { ...options, noUnusedLocals: false, noUnusedParameters: false },
    handbookOptions: { noErrors: true },
  },
};

/**
 * Puts the code that a block leaves out around it, hidden, so that its names have types: the rest of the file
 * that `<!-- from: path -->` names, or the values that test/docs/given.ts hands to a `<!-- block: name -->`.
 */
export function twoslashContext(md: MarkdownRenderer): void {
  md.core.ruler.push("twoslash-context", ({ tokens }) => {
    for (const [index, token] of tokens.entries()) {
      if (token.type !== "fence" || token.info.trim() !== "ts") continue;
      const above = tokens[index - 1]?.type === "html_block" ? (tokens[index - 1]?.content.trim() ?? "") : "";
      const from = /^<!-- from: (\S+) -->$/.exec(above)?.[1];
      token.info = "ts twoslash";
      token.content =
        from === undefined || from.endsWith(".md")
          ? withGiven(token.content)
          : withRestOf(from, token.content);
    }
  });
}

function withRestOf(path: string, code: string): string {
  const file = resolve(root, path);
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const start = text.indexOf(code.trimEnd());
  // The block leaves out an indentation of its file, so it stands for itself.
  if (start === -1) return withGiven(code);
  const absolute = (part: string) =>
    part.replace(/from "(\.{1,2}\/[^"]+)"/g, (_, to: string) => `from "${resolve(dirname(file), to)}"`);
  const before = absolute(text.slice(0, start));
  const after = absolute(text.slice(start + code.trimEnd().length));
  return `${before === "" ? "" : `${before}\n// ---cut---\n`}${code}\n// ---cut-after---\n${after}`;
}

/** The names of test/docs/given.ts, as types alone. */
const givenNames = [
  ...readFileSync(resolve(root, "test/docs/given.ts"), "utf8").matchAll(/^ {4}(\w+)(?:,|:)/gm),
].map(([, name]) => name as string);

function withGiven(code: string): string {
  const declared = (name: string) =>
    new RegExp(`(import[^;]*\\b${name}\\b[^;]*from|(const|let|function|class) \\{?[^=]*\\b${name}\\b)`).test(
      code,
    );
  const missing = givenNames.filter((name) => new RegExp(`\\b${name}\\b`).test(code) && !declared(name));
  if (missing.length === 0) return code;
  const given = `import type { Given } from "${root}test/docs/given.ts";`;
  return `${given}\ndeclare const { ${missing.join(", ")} }: Given;\n// ---cut---\n${code}`;
}
