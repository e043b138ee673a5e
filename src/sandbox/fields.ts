import { InvalidArgumentError, type Issue } from "../errors.ts";

/**
 * A record's fields as the API would show them: a copy that went through JSON, without those that are
 * undefined, for which the sandbox has a default.
 */
export function toFields(fields: unknown, reserved: readonly string[] = []): Record<string, unknown> {
  if (fields === undefined) return {};
  if (typeof fields !== "object" || fields === null || Array.isArray(fields)) refuse("must be an object");
  for (const name of reserved)
    if ((fields as Record<string, unknown>)[name] !== undefined)
      refuse(`must be left out here; use create to make a record in any ${name}`, name);
  return copy(fields as Record<string, unknown>);
}

/** A copy, by way of JSON. */
export function copy<T>(value: T): T {
  try {
    return JSON.parse(JSON.stringify(value)) as T;
  } catch (error) {
    return refuse(`cannot be written as JSON: ${(error as Error).message}`);
  }
}

/** Throws what every wrong argument of the sandbox throws. */
export function refuse(message: string, ...path: Issue["path"]): never {
  throw new InvalidArgumentError({ path, message });
}
