import { execFile, execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll } from "vitest";
import { type Packed, pack, root } from "./pack.ts";

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A user's project outside this repository, with the packed package in its node_modules. */
export interface Consumer extends Packed {
  readonly directory: string;
  /** Writes a file and returns its path. */
  write(name: string, content: string): string;
  /** Copies a file of `test/package/consumer`. `name` is the new name; by default the name stays. */
  copy(fixture: string, name?: string): string;
  node(...args: readonly string[]): Promise<Ran>;
}

const directories: string[] = [];
// Vitest ignores an `afterAll` that is called within a `beforeAll`, so call it here.
afterAll(() => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
});

/** The folder of a package that this repository or test/heavy has installed. */
export function homeOf(name: string): string {
  const homes = ["node_modules", "test/heavy/node_modules"].map((modules) => join(root, modules, name));
  const home = homes.find((path) => existsSync(path));
  if (home === undefined) throw new Error(`${name} is not installed: node test/heavy/install.ts`);
  return home;
}

/**
 * Packs the package and installs it into a project, without a registry. Its dependencies, or `packages`, come from this
 * repository. The project is deleted after the test file.
 */
export async function installed(packages = ["ky", "uuid", "zod"]): Promise<Consumer> {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), "stayhook-consumer-")));
  directories.push(directory);
  const packed = await pack(directory);
  const home = join(directory, "node_modules/stayhook");
  mkdirSync(home, { recursive: true });
  execFileSync("tar", ["-xzf", packed.tarball, "-C", home, "--strip-components=1"]);
  for (const name of packages) {
    mkdirSync(dirname(join(directory, "node_modules", name)), { recursive: true });
    symlinkSync(homeOf(name), join(directory, "node_modules", name), "junction");
  }
  return {
    ...packed,
    directory,
    write(name, content) {
      writeFileSync(join(directory, name), content);
      return join(directory, name);
    },
    copy(fixture, name = fixture) {
      cpSync(join(root, "test/package/consumer", fixture), join(directory, name));
      return join(directory, name);
    },
    node: (...args) =>
      new Promise((resolve) => {
        // The timeout kills a process that hangs.
        const options = {
          timeout: 100_000,
          cwd: directory,
          encoding: "utf8",
          env: { ...process.env, NODE_OPTIONS: "" },
        } as const;
        const child = execFile(process.execPath, args, options, (_error, stdout, stderr) =>
          resolve({ code: child.exitCode, stdout, stderr }),
        );
      }),
  };
}
