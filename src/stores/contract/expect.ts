/** Own checks instead of `node:assert`: the contract runs wherever a store does, Workers too. */

export function check(ok: boolean, message: string): asserts ok {
  if (!ok) throw new Error(message);
}

/** Plain data, deeply. */
export function equal(what: string, actual: unknown, expected: unknown): void {
  check(isSame(actual, expected), `${what}: expected ${show(expected)}, got ${show(actual)}`);
}

export function between(what: string, actual: unknown, min: number, max: number): void {
  const inside = typeof actual === "number" && actual >= min && actual <= max;
  check(inside, `${what}: expected a number from ${min} to ${max}, got ${show(actual)}`);
}

export async function rejects(what: string, run: () => unknown): Promise<void> {
  let result: unknown;
  try {
    result = await run();
  } catch {
    return;
  }
  check(false, `${what}: expected a rejection, got ${show(result)}`);
}

function isSame(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (a instanceof Date || b instanceof Date) {
    return a instanceof Date && b instanceof Date && a.getTime() === b.getTime();
  }
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [Object.entries(a), Object.entries(b)];
  return (
    left.length === right.length &&
    left.every(([key, value]) => Object.hasOwn(b, key) && isSame(value, (b as Record<string, unknown>)[key]))
  );
}

function show(value: unknown): string {
  const text =
    value === undefined || typeof value === "function" || typeof value === "symbol"
      ? String(value)
      : JSON.stringify(value, (_, inner) =>
          inner === undefined || typeof inner === "bigint" ? String(inner) : inner,
        );
  return text.length > 500 ? `${text.slice(0, 500)}…` : text;
}
