import { isObject } from "./unwrap.ts";

const more = new Set([
  "next",
  "nextpage",
  "nextcursor",
  "nextpagetoken",
  "nexttoken",
  "nexturl",
  "hasmore",
  "hasnext",
  "hasnextpage",
  "continuationtoken",
]);
const pages = new Set(["totalpages", "pagecount", "pages", "lastpage", "totalpagecount"]);
const totals = new Set([
  "total",
  "totalcount",
  "totalitems",
  "totalresults",
  "totalelements",
  "totalrecords",
]);
const holders = new Set([
  "meta",
  "metadata",
  "pagination",
  "paging",
  "pageinfo",
  "page",
  "links",
  "data",
  "cursor",
]);

/** The name of what says, in an answer with `rows` rows, that there are more of them; `undefined` where nothing does. */
export function pagingHint(body: unknown, headers: Headers, rows: number): string | undefined {
  if (/rel\s*=\s*"?[^",;]*\bnext\b/i.test(headers.get("link") ?? "")) return "the Link header";
  for (const [name, value] of headers)
    if (name.startsWith("x-") && says(normal(name.slice(2)), value, rows)) return `the ${name} header`;
  return (
    hintIn(body, rows) ??
    holdersIn(body)
      .map((holder) => hintIn(holder, rows))
      .find((hint) => hint !== undefined)
  );
}

function hintIn(value: unknown, rows: number): string | undefined {
  if (!isObject(value)) return undefined;
  return Object.keys(value).find((name) => says(normal(name), value[name], rows));
}

/** Objects in which paging is usually told of, one or two levels down. */
function holdersIn(body: unknown): unknown[] {
  const held = (value: unknown): unknown[] =>
    isObject(value)
      ? Object.keys(value)
          .filter((name) => holders.has(normal(name)))
          .map((name) => value[name])
      : [];
  const found = held(body);
  return [...found, ...found.flatMap(held)];
}

function says(name: string, value: unknown, rows: number): boolean {
  if (more.has(name))
    return value !== null && value !== undefined && value !== false && value !== "" && value !== "false";
  return (pages.has(name) && Number(value) > 1) || (totals.has(name) && Number(value) > rows);
}

function normal(name: string): string {
  return name.toLowerCase().replace(/[^a-z]/g, "");
}
