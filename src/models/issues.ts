import type { Issue } from "../errors.ts";
import type { StandardIssue } from "./standard-schema.ts";

/** Turns the issues of a schema library into the issues of this package's errors. */
export function toIssues(issues: readonly StandardIssue[]): Issue[] {
  return issues.map(({ message, path = [] }) => ({ path: path.map(toKey), message }));
}

function toKey(segment: PropertyKey | { readonly key: PropertyKey }): string | number {
  const key = typeof segment === "object" ? segment.key : segment;
  return typeof key === "symbol" ? String(key) : key;
}
