import type { Issue } from "../errors.ts";

/**
 * A schema of zod, valibot, arktype or another library that follows Standard Schema (https://standardschema.dev).
 * The interface has only the part of the standard that this package uses.
 */
export interface StandardSchema<Output = unknown> {
  /** The part of the object that the standard defines. */
  readonly "~standard": {
    /** The version of the standard. */
    readonly version: 1;
    /** The name of the schema library. */
    readonly vendor: string;
    // TypeScript reports only the first wrong member. Keep `types` first, because the error for `types` is shorter.
    /** The types of the schema. They exist only in TypeScript, not at run time. */
    readonly types?:
      | {
          /** The type of a value that is valid. */
          readonly output: Output;
        }
      | undefined;
    /** Validates a value. Returns the output or the issues. */
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
  };
}

/** The result of a schema: the output or the issues. */
export type StandardResult<Output> =
  | {
      /** The output of the schema. */
      readonly value: Output;
      /** `issues` is `undefined` if the value is valid. */
      readonly issues?: undefined;
    }
  | {
      /** The problems of an invalid value. */
      readonly issues: readonly StandardIssue[];
    };

/** One problem that a schema found. */
export type StandardIssue = {
  /** The problem. */
  readonly message: string;
  /** The property names and indexes that lead to the invalid value. */
  readonly path?:
    | readonly (
        | PropertyKey
        | {
            /** The property name or index. */
            readonly key: PropertyKey;
          }
      )[]
    | undefined;
};

/** Turns the issues of a schema library into the issues of this package's errors. */
export function toIssues(issues: readonly StandardIssue[]): Issue[] {
  return issues.map(({ message, path = [] }) => ({ path: path.map(toKey), message }));
}

function toKey(segment: PropertyKey | { readonly key: PropertyKey }): string | number {
  const key = typeof segment === "object" ? segment.key : segment;
  return typeof key === "symbol" ? String(key) : key;
}

export function isSchema(value: unknown): value is StandardSchema {
  // The schemas of arktype are functions.
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false;
  return typeof (value as Partial<StandardSchema>)["~standard"]?.validate === "function";
}

// The properties of a zod definition that hold a schema, a list of schemas or an object of schemas.
const zodParts =
  "shape element type innerType in out left right options items rest keyType valueType schema catchall".split(
    " ",
  );

type ZodSchema = { readonly _zod?: { readonly def: object }; readonly _def?: object };

/** Whether a schema mixes parts of zod 3 and zod 4. Such a schema throws when it parses a value. */
export function mixesZod(schema: StandardSchema): boolean {
  const versions = new Set<3 | 4>();
  const seen = new Set<unknown>();
  const visit = (part: unknown): void => {
    if (!isZod(part) || seen.has(part)) return;
    seen.add(part);
    versions.add(part._zod ? 4 : 3);
    const def = (part._zod?.def ?? part._def) as Readonly<Record<string, unknown>>;
    for (const name of zodParts) {
      // The shape of a zod 3 object is a function.
      const held = name === "shape" && typeof def.shape === "function" ? def.shape() : def[name];
      for (const each of isZod(held) ? [held] : Object.values(Object(held))) visit(each);
    }
  };
  visit(schema);
  return versions.size > 1;
}

function isZod(value: unknown): value is ZodSchema {
  return typeof value === "object" && value !== null && ("_zod" in value || "_def" in value);
}
