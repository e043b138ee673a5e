import { StayhookError } from "../errors.ts";

/**
 * Imports the package of a database, which is an optional peer dependency.
 *
 * @throws StayhookError if the package is not installed
 */
export async function loadDriver<T>(store: string, name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    const code = String((cause as { readonly code?: unknown } | undefined)?.code);
    if (!code.endsWith("MODULE_NOT_FOUND")) throw cause;
    throw new StayhookError(
      `${store} needs the package ${name}, which is not installed: npm install ${name}`,
      { cause },
    );
  }
}
