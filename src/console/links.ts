// The links of the inbox. Every page keeps the list from which the user came, so that the way back has its filter.

import { filterFields } from "./event-filter.ts";

/** The parameters of a list: its filter, and the event behind which it begins. */
const listFields: readonly string[] = [...filterFields, "error", "cause", "after"];
/** The parameters that all pages of a visit keep: whether personal data is shown, and the replay that is followed. */
const visitFields: readonly string[] = ["personal", "run"];

/** The entries of the query that all pages of a visit keep. */
export function ofVisit(query: URLSearchParams): [name: string, value: string][] {
  return [...query].filter(([name]) => visitFields.includes(name));
}

/** The query of the list from which the user came. */
export function listOf(query: URLSearchParams): URLSearchParams {
  const ofList = [...query].filter(([name, value]) => listFields.includes(name) && value !== "");
  return new URLSearchParams([...ofList, ...ofVisit(query)]);
}

/** The query of another page, such as `{ event: "…" }`. */
export function linkTo(query: URLSearchParams, page: Readonly<Record<string, string>>): URLSearchParams {
  return new URLSearchParams([...Object.entries(page), ...listOf(query)]);
}
