import { StayhookError } from "../errors.ts";

/**
 * Imports the package of a database, which is an optional peer dependency.
 *
 * @param member - a function of the package, to find the exports where Node or a bundler has put them
 * @throws StayhookError if the package is not installed or cannot be loaded
 */
export async function loadDriver<T extends object>(
  store: string,
  name: string,
  member: keyof T,
  load: () => Promise<T>,
): Promise<T> {
  const loaded = await load().catch((cause: unknown) => {
    throw problem(new StayhookError(`${store} ${problemWith(name, cause)}`, { cause }));
  });
  // Of a CommonJS package, Node and bundlers put exports that they cannot detect on the default export.
  const places = [loaded, (loaded as { readonly default?: T }).default];
  const found = places.find((place) => typeof place?.[member] === "function");
  if (found) return found;
  throw problem(new StayhookError(`${store} ${unusable(name, `it has no export \`${String(member)}\``)}`));
}

const problems = new WeakSet<object>();

function problem(error: StayhookError): StayhookError {
  problems.add(error);
  return error;
}

/** Whether {@link loadDriver} threw this error, whose message says what to do. */
export function isDriverProblem(error: object): boolean {
  return problems.has(error);
}

function problemWith(name: string, cause: unknown): string {
  const {
    code,
    pnpCode,
    message = String(cause),
  } = Object(cause) as Readonly<Record<"code" | "pnpCode" | "message", string | undefined>>;
  if (pnpCode !== undefined)
    return `needs the package ${name}, which your package.json does not list. Yarn PnP loads only listed packages: yarn add ${name}`;
  // A bundler may also leave out a package that the driver itself needs.
  const isAbsent = code?.endsWith("MODULE_NOT_FOUND") && new RegExp(`['"\`/]${name}['"\`/]`).test(message);
  if (isAbsent) return `needs the package ${name}, which is not installed: npm install ${name}`;
  return unusable(name, (message.split("\n", 1)[0] ?? "").slice(0, 200));
}

function unusable(name: string, why: string): string {
  return `could not load the package ${name} (${why}). Install ${name}, and if you bundle your app, name ${name} as external in the bundler's settings`;
}
