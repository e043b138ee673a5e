// Measures another build of the package beside this one, in the same rounds.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

/** Another build of the package. Its folder has `package.json` and `dist`. */
export interface Build {
  readonly folder: string;
  readonly version: string;
}

/** A contestant, with the package of this folder or of another build. */
export interface Contender<N extends string> {
  readonly name: N;
  /** The name, and for another build also its version. */
  readonly key: string;
  /** The end of a row's label. */
  readonly suffix: string;
  readonly folder: string | undefined;
}

export function buildIn(folder: string): Build {
  const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return { folder: resolve(folder), version };
}

/** Returns each contestant, and after each one of ours the same of the other build. */
export function withBeside<N extends string>(
  names: readonly N[],
  beside: Build | undefined,
  isOurs: (name: N) => boolean = () => true,
): Contender<N>[] {
  return names.flatMap((name) => {
    const own = { name, key: name as string, suffix: "", folder: undefined };
    if (!beside || !isOurs(name)) return [own];
    const suffix = ` (${beside.version})`;
    return [own, { name, key: name + suffix, suffix, folder: beside.folder }];
  });
}
