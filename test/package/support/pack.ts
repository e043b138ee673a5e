import { type ExecFileException, execFile } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../../", import.meta.url));

export const manifest: {
  readonly version: string;
  readonly exports: Readonly<
    Record<string, string | Readonly<Record<string, Readonly<Record<string, string>>>>>
  >;
  readonly dependencies: Readonly<Record<string, string>>;
} = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

/** The specifiers that users can import, such as `stayhook` and `stayhook/node`. */
export const subpaths = Object.keys(manifest.exports)
  .filter((subpath) => !subpath.endsWith(".json"))
  .map((subpath) => subpath.replace(/^\./, "stayhook"));

export interface Packed {
  readonly tarball: string;
  /** Paths of the files in the tarball. */
  readonly files: readonly string[];
}

/** Packs the files that `npm publish` would send. Builds first if src has changed since the last build. */
export async function pack(into: string): Promise<Packed> {
  const release = await lock();
  try {
    if (isStale()) await run(process.execPath, ["node_modules/tsup/dist/cli-default.js"]);
    const kept = await packOnce(join(root, ".tmp/packed"));
    const tarball = join(into, basename(kept.tarball));
    cpSync(kept.tarball, tarball);
    return { ...kept, tarball };
  } finally {
    release();
  }
}

/** Packs only if something has changed since the last call, because many test files need the package. */
async function packOnce(into: string): Promise<Packed> {
  const key = contentsKey();
  const report = join(into, "report.json");
  if (existsSync(report)) {
    const last: Packed & { readonly key: string } = JSON.parse(readFileSync(report, "utf8"));
    if (last.key === key && existsSync(last.tarball)) return last;
  }
  rmSync(into, { recursive: true, force: true });
  mkdirSync(into, { recursive: true });
  const said = JSON.parse(
    await run("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", into]),
  );
  // npm 12 returns an object with the package name as key.
  const { filename, files } = Array.isArray(said) ? said[0] : said.stayhook;
  const packed = {
    tarball: join(into, filename),
    files: files.map(({ path }: { path: string }) => path),
  };
  writeFileSync(report, JSON.stringify({ ...packed, key }));
  return packed;
}

const rootFiles = (): string[] =>
  readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name);

/** Returns a hash of all files that `npm pack` could include. */
function contentsKey(): string {
  // Other tests link the checkout into node_modules below examples. Following that link would never end.
  const below = globSync(["dist/**", "docs/**/*.md", "examples/**"], {
    cwd: root,
    exclude: ({ name }) => name === "node_modules",
    withFileTypes: true,
  })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const states = [...rootFiles().map((name) => join(root, name)), ...below].sort().map((file) => {
    const { size, mtimeMs, ino } = statSync(file);
    return `${file} ${size} ${mtimeMs} ${ino}`;
  });
  return createHash("sha256").update(states.join("\n")).digest("hex");
}

/** Locks the build, because test files run in parallel. The lock is a database lock, which ends with its process. */
async function lock(): Promise<() => void> {
  mkdirSync(join(root, ".tmp"), { recursive: true });
  const database = new DatabaseSync(join(root, ".tmp/package.lock"));
  for (;;) {
    try {
      database.exec("BEGIN EXCLUSIVE");
      return () => database.close();
    } catch (error) {
      if (!/locked/.test(String(error))) throw error;
      await sleep(100);
    }
  }
}

function isStale(): boolean {
  const entries = Object.values(manifest.exports).flatMap((target) =>
    typeof target === "string" ? [] : Object.values(target).flatMap((condition) => Object.values(condition)),
  );
  // `npm start` runs `tsup --no-dts`, which leaves the types out. So check that all files exist.
  if (!entries.every((entry) => existsSync(join(root, entry)))) return true;
  const configs = readdirSync(root).filter((name) =>
    /^(tsup|subpaths)\.config\.ts$|^tsconfig\.json$/.test(name),
  );
  const changed = Math.max(...times("src"), ...configs.map(timeOf));
  return changed > Math.min(...times("dist"));
}

function times(directory: string): number[] {
  return readdirSync(join(root, directory), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs);
}

const timeOf = (file: string): number => statSync(join(root, file)).mtimeMs;

function run(command: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const done = (error: ExecFileException | null, stdout: string, stderr: string): void =>
      error ? reject(new Error(`${command} ${args.join(" ")}\n${stdout}\n${stderr}`)) : resolve(stdout);
    execFile(command, args, { cwd: root, encoding: "utf8", maxBuffer: 2 ** 26 }, done);
  });
}
