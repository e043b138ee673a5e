import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";

const examples = join(import.meta.dirname, "..");

/** Programs for the files that do not run on Node. A folder names its program in its package.json. */
const runtimes: Readonly<Record<string, readonly string[]>> = {
  bun: ["bun"],
  deno: ["deno", "run", "--allow-all"],
};

export interface Command {
  readonly command: readonly string[];
  /** The working directory, if it matters. */
  readonly cwd?: string;
}

/** Returns the names of the examples: each file, and each folder with a package.json. */
export function names(): string[] {
  return readdirSync(examples, { withFileTypes: true })
    .filter((entry) => (entry.isFile() ? entry.name.endsWith(".ts") : hasManifest(entry.name)))
    .map(({ name }) => name.replace(/\.ts$/, ""));
}

/** Returns the command that starts an example in this repository. */
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

/**
 * Links this repository into examples/node_modules, so that folders with their own package.json find the package too.
 */
function linkPackage(): void {
  const link = join(examples, "node_modules/stayhook");
  if (existsSync(link)) return;
  mkdirSync(join(examples, "node_modules"), { recursive: true });
  symlinkSync(join(examples, ".."), link, "junction");
}
