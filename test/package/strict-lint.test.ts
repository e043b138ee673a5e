import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { extractBlocks } from "../docs/extract.ts";
import { type Consumer, homeOf, installed } from "./support/consumer.ts";

let consumer: Consumer;
beforeAll(async () => {
  const types = ["@types/node", "undici-types", "@opentelemetry/api"];
  consumer = await installed(["ky", "uuid", "zod", ...types]);
  consumer.write(
    "tsconfig.json",
    JSON.stringify({
      compilerOptions: {
        ...{ target: "es2022", lib: ["ES2023"], module: "node16", moduleResolution: "node16" },
        ...{ types: ["node"], strict: true, skipLibCheck: true, noEmit: true },
      },
      include: ["*.mts"],
    }),
  );
  const plugin = JSON.stringify(join(homeOf("typescript-eslint"), "dist/index.js"));
  consumer.write(
    "eslint.config.mjs",
    `import eslint from ${plugin};
    export default eslint.config(eslint.configs.strictTypeChecked, {
      // A matter of style: \`() => console.log("listening")\`.
      rules: { "@typescript-eslint/no-confusing-void-expression": "off" },
      languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    });`,
  );
});

/** Lints a file of the consumer. Returns each finding as `line: rule`. */
async function lint(file: string): Promise<string[]> {
  const eslint = join(homeOf("eslint"), "bin/eslint.js");
  const { stdout, stderr } = await consumer.node(eslint, "--format", "json", file);
  if (!stdout.startsWith("[")) throw new Error(stdout + stderr);
  const [{ messages }] = JSON.parse(stdout);
  return messages.map(
    ({ line, ruleId, message }: { line: number; ruleId: string | null; message: string }) =>
      `${line}: ${ruleId ?? message}`,
  );
}

test("README's app passes typescript-eslint's strictTypeChecked", async () => {
  for (const { name, code } of extractBlocks(["README.md"])) {
    if (name === "twelve-lines") consumer.write("webhooks.mts", code);
    if (name === "app") consumer.write("app.mts", code);
  }
  expect(await lint("app.mts")).toEqual([]);
});

test("methods as values, the listener and `in` pass it, and each rule sees its mistake", async () => {
  const file = consumer.copy("strict-lint.ts", "strict-lint.mts");
  const lines = readFileSync(file, "utf8").split("\n");
  const expected = lines.flatMap((text, index) => {
    const [, rule] = /^\s*\/\/ finds: (.*)/.exec(text) ?? [];
    return rule === undefined ? [] : [`${index + 2}: ${rule}`];
  });
  expect(expected).toHaveLength(3);
  expect(await lint("strict-lint.mts")).toEqual(expected);
});
