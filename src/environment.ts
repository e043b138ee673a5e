// Reads environment variables on each runtime.

/** Ends the message for an empty option. */
export const IS_UNSET = "(is an environment variable unset?)";

interface DenoPermissions {
  readonly permissions: {
    querySync(permission: { readonly name: "env"; readonly variable: string }): { readonly state: string };
  };
}

/** Reads an environment variable. Returns `undefined` on a runtime without an environment. Never throws. */
export function environmentVariable(variable: string): string | undefined {
  try {
    const { Deno } = globalThis as unknown as { readonly Deno?: DenoPermissions };
    // Do not read a variable without the permission: Deno would prompt the user or throw.
    const permission = Deno?.permissions.querySync({ name: "env", variable });
    if (permission && permission.state !== "granted") return undefined;
    // Not all runtimes have a `process`.
    return globalThis.process?.env?.[variable];
  } catch {
    return undefined;
  }
}
