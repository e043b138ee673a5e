import { execFileSync } from "node:child_process";
import { existsSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

// Install the peers first, because main.ts imports them.
installPeers();

/** Installs the peers from their own package.json, so that other users of the repository need not install them. */
function installPeers(): void {
  const directory = fileURLToPath(new URL(".", import.meta.url));
  const modules = join(directory, "node_modules");
  if (!existsSync(join(modules, "stripe")))
    execFileSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: directory, stdio: "inherit" });
  // bench has its own package.json, so Node does not resolve `stayhook` to this repository. Link the repository.
  if (!existsSync(join(modules, "stayhook"))) symlinkSync("../..", join(modules, "stayhook"), "junction");
}
