import { readdirSync, readFileSync, statSync } from "node:fs";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { pageOf } from "../.vitepress/example-links.ts";

const examples = fileURLToPath(new URL("../../examples/", import.meta.url));
const languages = [".ts", ".tsx", ".json", ".jsonc", ".yml", ".yaml", ".prisma"];

/** One page for each example: its files, as they are. */
export default {
  paths: () =>
    readdirSync(examples)
      .filter((entry) => entry !== "README.md" && entry !== "node_modules")
      .map((entry) => ({
        params: { example: pageOf(entry), title: pageOf(entry) },
        content: filesOf(entry).map(blockOf).join("\n\n"),
      })),
};

function filesOf(entry: string): string[] {
  if (statSync(join(examples, entry)).isFile()) return [entry];
  return readdirSync(join(examples, entry), { recursive: true, encoding: "utf8" })
    .filter((name) => !/node_modules|generated/.test(name) && languages.includes(extname(name)))
    .sort()
    .map((name) => join(entry, name));
}

const blockOf = (file: string) =>
  `**examples/${file}**\n\n\`\`\`${extname(file) === ".ts" ? "typescript" : extname(file).slice(1)}\n${readFileSync(join(examples, file), "utf8").trimEnd()}\n\`\`\``;
