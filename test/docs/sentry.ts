// A stand-in for @sentry/node in docs/telemetry.md, with the part of its interface that the block uses.

/** The tags of each isolation scope. */
export const scopes: Record<string, unknown>[] = [];

export const withIsolationScope = <T>(run: (scope: { setTags(tags: object): void }) => T): T => {
  const tags: Record<string, unknown> = {};
  scopes.push(tags);
  return run({ setTags: (more) => void Object.assign(tags, more) });
};

export const captureException = (_: unknown): void => {};
