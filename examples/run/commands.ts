import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";

const examples = join(import.meta.dirname, "..");

/** What runs the files that are not for Node. A folder says it in its own package.json. */
const runtimes: Readonly<Record<string, readonly string[]>> = {
  bun: ["bun"],
  deno: ["deno", "run", "--allow-all"],
};

export interface Command {
  readonly command: readonly string[];
  /** Where it has to run, if that matters. */
  readonly cwd?: string;
}

/** Each file, and each folder with a package.json. */
export function names(): string[] {
  return readdirSync(examples, { withFileTypes: true })
    .filter((entry) => (entry.isFile() ? entry.name.endsWith(".ts") : hasManifest(entry.name)))
    .map(({ name }) => name.replace(/\.ts$/, ""));
}

/** How an example is started in this repository. */
export function commandOf(name: string): Command {
  linkPackage();
  if (!hasManifest(name)) {
    return { command: [...(runtimes[name] ?? [process.execPath]), join(examples, `${name}.ts`)] };
  }
  const cwd = join(examples, name);
  const { scripts } = JSON.parse(readFileSync(join(cwd, "package.json"), "utf8"));
  return { command: ["npm", "run", "--silent", scripts.dev ? "dev" : "start"], cwd };
}

function hasManifest(folder: string): boolean {
  return existsSync(join(examples, folder, "package.json"));
}

/** A file here finds the package by its name; a folder with a package.json is a package of its own, and looks here. */
function linkPackage(): void {
  const link = join(examples, "node_modules/stayhook");
  if (existsSync(link)) return;
  mkdirSync(join(examples, "node_modules"), { recursive: true });
  symlinkSync(join(examples, ".."), link, "junction");
}
