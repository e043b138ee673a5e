import type { Issue } from "../errors.ts";
import { toIssues } from "../models/issues.ts";
import type { StandardResult, StandardSchema } from "../models/standard-schema.ts";
import type { Answer } from "./http.ts";
import type { Part } from "./unwrap.ts";

/** What a schema makes of a value. Its issues are placed where the value stands in the body. */
export async function validate<T>(
  schema: StandardSchema<T>,
  { value, path }: Part,
  answer: Answer,
): Promise<{ readonly value: T } | { readonly issues: readonly Issue[] }> {
  let result: StandardResult<T>;
  try {
    result = await schema["~standard"].validate(value);
  } catch (cause) {
    throw answer.invalid([{ path, message: "the schema threw; see cause" }], cause);
  }
  if (!result.issues) return result;
  return { issues: toIssues(result.issues).map((issue) => ({ ...issue, path: [...path, ...issue.path] })) };
}
