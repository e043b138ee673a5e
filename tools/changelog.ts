/** Matches the newest heading of a changelog with a version: `## 0.2.0 (2026-11-22)`. */
const heading = /^## (\d+\.\d+\.\d+\S*)(?: \((\d{4}-\d{2}-\d{2})\))?$/m;

/** Returns the newest version of a changelog, and the day of its release if the heading has one. */
export function newestOf(changelog: string): { readonly version?: string; readonly date?: string } {
  const [, version, date] = heading.exec(changelog) ?? [];
  return { ...(version !== undefined && { version }), ...(date !== undefined && { date }) };
}

/** Adds the day to the newest heading, if it has none. Changesets writes headings without one. */
export function dateNewest(changelog: string, day: string): string {
  return changelog.replace(heading, (line, version: string, date?: string) =>
    date === undefined ? `## ${version} (${day})` : line,
  );
}
