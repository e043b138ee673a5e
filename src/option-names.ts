// Finds a misspelt option, and names the most similar one.

import { InvalidArgumentError, type Issue } from "./errors.ts";

/**
 * Checks that options have no unknown name.
 *
 * @param given - the options. `undefined` is allowed
 * @param names - the names of all known options
 * @param path - the path of the options in the caller's arguments
 * @throws InvalidArgumentError if `given` is not an object or has an unknown option. The message suggests the nearest
 * known name
 */
export function checkNoUnknown(given: unknown, names: readonly string[], path: Issue["path"] = []): void {
  if (given === undefined) return;
  const notObject = path.length === 0 ? "the options must be an object" : "must be an object";
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new InvalidArgumentError({ path, message: notObject });
  const issues = unknownNames(given, names).map((name) => ({
    path: [...path, name],
    message: describeUnknown(name, names, path),
  }));
  if (issues.length > 0) throw new InvalidArgumentError(issues);
}

export function unknownNames(given: object, known: readonly string[]): string[] {
  return Object.keys(given).filter((name) => !known.includes(name));
}

export function describeUnknown(name: string, known: readonly string[], path: Issue["path"] = []): string {
  const quoted = (each: string): string => `\`${[...path, each].join(".")}\``;
  const near = nearest(name, known) ?? known.find((each) => each === OTHER_NAMES.get(name));
  const help =
    near === undefined
      ? `the known options are ${known.map(quoted).join(", ")}`
      : `did you mean ${quoted(near)}?`;
  return `unknown option ${quoted(name.slice(0, 100))}; ${help}`;
}

/** Names that other packages give an option. */
const OTHER_NAMES: ReadonlyMap<string, string> = new Map([
  ["retries", "maxAttempts"],
  ["maxRetries", "maxAttempts"],
]);

/** Returns the known name that is most similar to `name`, or `undefined` if no name is similar enough. */
export function nearest(name: string, names: readonly string[]): string | undefined {
  const given = name.slice(0, 100).toLowerCase();
  const scored = names.map((each) => [each, difference(given, each.toLowerCase())] as const);
  const [best] = scored.toSorted(([, one], [, other]) => one - other);
  return best && best[1] <= 0.4 ? best[0] : undefined;
}

/** Returns how much two words differ: 0 if they are equal, 1 if they have nothing in common. */
function difference(a: string, b: string): number {
  // A word inside another word is similar: for `token`, suggest `accessToken`.
  const most = Math.min(a.length, b.length) >= 3 && (a.includes(b) || b.includes(a)) ? 0.3 : 1;
  // The Levenshtein distance, row by row.
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...a].entries()) {
    const next = [index + 1];
    for (const [at, other] of [...b].entries())
      next.push(Math.min(next[at]! + 1, row[at + 1]! + 1, row[at]! + (letter === other ? 0 : 1)));
    row = next;
  }
  return Math.min(most, row.at(-1)! / Math.max(a.length, b.length, 1));
}
