import { readFileSync, writeFileSync } from "node:fs";
import { dateNewest } from "./changelog.ts";

// `changeset version` has raised the version in package.json and written the new part of the changelog.
const { version } = JSON.parse(readFileSync("package.json", "utf8"));
const source = readFileSync("src/version.ts", "utf8");
writeFileSync("src/version.ts", source.replace(/"[^"]*"/, JSON.stringify(version)));
const changelog = readFileSync("CHANGELOG.md", "utf8");
writeFileSync("CHANGELOG.md", dateNewest(changelog, new Date().toISOString().slice(0, 10)));
