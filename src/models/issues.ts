import type { Issue } from "../errors.ts";
import type { StandardIssue } from "./standard-schema.ts";

/** A schema library's issues in the shape that this package's errors have. */
export function toIssues(issues: readonly StandardIssue[]): Issue[] {
  return issues.map(({ message, path = [] }) => ({ path: path.map(toKey), message }));
}

function toKey(segment: PropertyKey | { readonly key: PropertyKey }): string | number {
  const key = typeof segment === "object" ? segment.key : segment;
  return typeof key === "symbol" ? String(key) : key;
}
