/** Installs the packages of this folder if they are not there, and links the peers of examples into examples/. */
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";

const here = import.meta.dirname;
const wanted = join(here, "package-lock.json");
const installed = join(here, "node_modules/.installed.json");
if (!existsSync(installed) || !readFileSync(installed).equals(readFileSync(wanted))) {
  execFileSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: here, stdio: "inherit" });
  copyFileSync(wanted, installed);
}

// Node and TypeScript look for the packages of an example in the folders above it.
const { dependencies } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
for (const name of Object.keys(dependencies)) {
  const link = join(here, "../../examples/node_modules", name);
  mkdirSync(dirname(link), { recursive: true });
  rmSync(link, { recursive: true, force: true });
  symlinkSync(join(here, "node_modules", name), link, "junction");
}
