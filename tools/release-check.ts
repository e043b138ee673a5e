import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Matches the newest heading of a changelog with its version and day: `## 0.2.0 (2026-11-22)`. */
const newest = /^## (\d+\.\d+\.\d+\S*)(?: \((\d{4}-\d{2}-\d{2})\))?$/m;

/** The fields that only the owner of the package can fill in. */
const ownersFields = ["author", "repository", "homepage", "bugs"] as const;

/** Matches the text that stands where the owner has to fill something in: `OWNER-NAME`, or a host that nobody can own. */
const placeholder = /\bOWNER-[A-Z]+\b|\.invalid\b/;

/** Returns the problems that prevent a release of this checkout, one sentence each. */
export function releaseProblems(root: string): string[] {
  const read = (file: string) => readFileSync(join(root, file), "utf8");
  const manifest = JSON.parse(read("package.json"));
  const [, version, date] = newest.exec(read("CHANGELOG.md")) ?? [];
  return [
    ...ownersFields.flatMap((field) => problemOf(field, manifest[field])),
    ...(placeholder.test(read("SECURITY.md"))
      ? ["SECURITY.md has a placeholder. Set the address to which people report vulnerabilities."]
      : []),
    ...(version === manifest.version
      ? []
      : [`CHANGELOG.md begins with version ${version}, and package.json has ${manifest.version}.`]),
    ...(date === undefined ? ["CHANGELOG.md has no date for its newest version."] : []),
    ...(read("src/version.ts").includes(`"${manifest.version}"`)
      ? []
      : [`src/version.ts does not have version ${manifest.version}.`]),
    ...tagProblems(manifest.version),
  ];
}

function problemOf(field: (typeof ownersFields)[number], value: unknown): string[] {
  const isEmpty = value === undefined || value === "";
  if (!isEmpty && !placeholder.test(JSON.stringify(value))) return [];
  const said = isEmpty ? "has no" : "has a placeholder as";
  const meant = field === "author" ? "to your name" : "to the place where you publish the source";
  return [`package.json ${said} \`${field}\`. Set it ${meant}.`];
}

/** A release on GitHub runs with the name of its tag. npm publishes the version of package.json, whatever the tag says. */
function tagProblems(version: string): string[] {
  const { GITHUB_REF_TYPE: type, GITHUB_REF_NAME: tag } = process.env;
  if (type !== "tag" || tag === `v${version}`) return [];
  return [`The release has the tag ${tag}, and package.json has ${version}. The tag must be v${version}.`];
}

if (import.meta.main) {
  const problems = releaseProblems(process.cwd());
  for (const problem of problems) console.error(problem);
  // `npm publish --dry-run` only shows the files, so anyone may run it.
  const isDryRun = process.env.npm_config_dry_run === "true";
  if (problems.length > 0) console.error(isDryRun ? "A real publish is refused." : "Not published.");
  process.exitCode = problems.length > 0 && !isDryRun ? 1 : 0;
}
