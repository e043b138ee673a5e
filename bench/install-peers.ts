import { execFileSync } from "node:child_process";
import { existsSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

// Before main.ts, which imports the packages.
installPeers();

/** The peers have a package.json of their own, so that nobody else has to install them. */
function installPeers(): void {
  const directory = fileURLToPath(new URL(".", import.meta.url));
  const modules = join(directory, "node_modules");
  if (!existsSync(join(modules, "stripe")))
    execFileSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: directory, stdio: "inherit" });
  // Below that package.json, `stayhook` is no longer the package's own name.
  if (!existsSync(join(modules, "stayhook"))) symlinkSync("../..", join(modules, "stayhook"), "junction");
}
