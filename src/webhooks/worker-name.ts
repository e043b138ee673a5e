interface Process {
  readonly pid?: number;
  readonly getBuiltinModule?: (id: "node:os") => { hostname(): string } | undefined;
}

/** Host and pid of this process, such as `web-1:4711`, for the history of events. */
export function workerName(): string {
  const { process, Deno } = globalThis as { readonly process?: Process; readonly Deno?: unknown };
  // Deno would ask the user for permission to read the host name.
  const host = Deno ? undefined : hostname(process);
  return `${host ?? "unknown"}:${process?.pid ?? 0}`;
}

function hostname(process: Process | undefined): string | undefined {
  try {
    return process?.getBuiltinModule?.("node:os")?.hostname();
  } catch {
    return undefined;
  }
}
