import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Matches the newest heading of a changelog with its version and day: `## 0.2.0 (2026-11-22)`. */
const newest = /^## (\d+\.\d+\.\d+\S*)(?: \((\d{4}-\d{2}-\d{2})\))?$/m;

/** Returns the problems that prevent a release of this checkout, one sentence each. */
export function releaseProblems(root: string): string[] {
  const read = (file: string) => readFileSync(join(root, file), "utf8");
  const manifest = JSON.parse(read("package.json"));
  const [, version, date] = newest.exec(read("CHANGELOG.md")) ?? [];
  const missing = ["repository", "homepage", "bugs"]
    .filter((field) => manifest[field] === undefined)
    .map((field) => `package.json has no \`${field}\`. Set it to the place where you publish the source.`);
  return [
    ...missing,
    ...(version === manifest.version
      ? []
      : [`CHANGELOG.md begins with version ${version}, and package.json has ${manifest.version}.`]),
    ...(date === undefined ? ["CHANGELOG.md has no date for its newest version."] : []),
    ...(read("src/version.ts").includes(`"${manifest.version}"`)
      ? []
      : [`src/version.ts does not have version ${manifest.version}.`]),
  ];
}

if (import.meta.main) {
  const problems = releaseProblems(process.cwd());
  for (const problem of problems) console.error(problem);
  // `npm publish --dry-run` only shows the files, so anyone may run it.
  const isDryRun = process.env.npm_config_dry_run === "true";
  if (problems.length > 0) console.error(isDryRun ? "A real publish is refused." : "Not published.");
  process.exitCode = problems.length > 0 && !isDryRun ? 1 : 0;
}
