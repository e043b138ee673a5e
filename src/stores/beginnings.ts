// Which records a claim takes, by the beginnings of their keys: the options `except` and `only`.

import { InvalidArgumentError, type Issue } from "../errors.ts";
import type { NextDueOptions } from "./store-options.ts";

/** Checked beginnings without repetitions. An absent list restricts nothing. */
export interface Restriction {
  readonly except?: readonly string[] | undefined;
  readonly only?: readonly string[] | undefined;
}

/** @throws InvalidArgumentError if a beginning is empty, which would stand for all records, or is no text */
export function checkedRestriction({ except, only }: NextDueOptions): Restriction {
  if (except === undefined && only === undefined) return {};
  const issues = [...issuesOf("except", except), ...issuesOf("only", only)];
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return {
    except: except === undefined || except.length === 0 ? undefined : [...new Set(except)],
    only: only && [...new Set(only)],
  };
}

function issuesOf(name: string, beginnings: unknown): Issue[] {
  if (beginnings === undefined) return [];
  if (!Array.isArray(beginnings))
    return [{ path: [name], message: "must be an array of texts such as a17/booking:" }];
  return beginnings.flatMap((text: unknown, index) =>
    typeof text === "string" && text !== "" && text.isWellFormed()
      ? []
      : [{ path: [name, index], message: "must be a text such as a17/booking:, and not empty" }],
  );
}

/**
 * Returns a function that tells whether a claim takes the record with a key. The key is the `ref` or, for an event without
 * a record, the event's id. Returns `undefined` if the claim takes all records.
 */
export function takesOf({ except, only }: Restriction): ((key: string) => boolean) | undefined {
  if (except === undefined && only === undefined) return undefined;
  const [isOut, isIn] = [beginsOf(except ?? []), only && beginsOf(only)];
  return (key) => !isOut(key) && (isIn === undefined || isIn(key));
}

/** Looks up one text for each length of the beginnings, so that a thousand accounts cost no more than one. */
function beginsOf(beginnings: readonly string[]): (key: string) => boolean {
  const known = new Set(beginnings);
  const lengths = [...new Set(beginnings.map(({ length }) => length))];
  return (key) => lengths.some((length) => known.has(key.slice(0, length)));
}
