import { isObject, toNumber } from "./envelopes.ts";

/** What a caller inside this package has to know of a list beside its rows. */
export interface ListFacts {
  /** The list may lack rows that the platform has. */
  readonly partial: boolean;
  /** The number of rows that did not validate. */
  readonly invalid: number;
}

const facts = new WeakMap<object, ListFacts>();

/**
 * The facts of a list that `client.listings.list()` gave.
 *
 * @param list - the array that it resolved to, or the `ResponseValidationError` that it rejected with
 * @returns `undefined` where the answer held no list at all
 */
export function listFactsOf(list: object): ListFacts | undefined {
  return facts.get(list);
}

export function setListFacts<T extends object>(list: T, known: ListFacts): T {
  facts.set(list, known);
  return list;
}

/** What a field says of the rows: some are missing, these are all, or the page is full, which proves nothing. */
type Sign = "more" | "all" | "full" | undefined;

// The usual names of such fields, in lower case and without separators.
const signs: readonly [names: string, sign: (value: unknown, rows: number) => Sign][] = [
  [
    "next nextpage nextcursor nextpagetoken nexttoken nexturl hasmore hasnext hasnextpage continuationtoken",
    (value) => (value && value !== "false" ? "more" : "all"),
  ],
  [
    "totalpages pagecount pages lastpage totalpagecount",
    (pages) => (toNumber(pages) > 1 ? "more" : undefined),
  ],
  [
    "total totalcount totalitems totalresults totalelements totalrecords",
    (total, rows) => (toNumber(total) > rows ? "more" : toNumber(total) === rows ? "all" : undefined),
  ],
  // Some APIs count the rows of the page, so that an equal number proves nothing.
  ["count", (count, rows) => (toNumber(count) > rows ? "more" : undefined)],
  [
    "limit pagesize perpage pagelimit",
    (limit, rows) => (toNumber(limit) > 0 && toNumber(limit) <= rows ? "full" : undefined),
  ],
];
const signOf = new Map(signs.flatMap(([names, sign]) => names.split(" ").map((name) => [name, sign])));

const holders = /^(meta(data)?|pagination|paging|pageinfo|page|links|data|cursor)$/;

/**
 * The name of the field or header that hints at further pages; `undefined` where nothing does.
 *
 * @param rows - the number of rows in the answer
 */
export function pagingHint(body: unknown, headers: Headers, rows: number): string | undefined {
  if (/rel\s*=\s*"?[^",;]*\bnext\b/i.test(headers.get("link") ?? "")) return "the Link header";
  const found = [...fieldsOf(body), ...headersOf(headers)].map(
    ([name, value, shown]) => [signOf.get(plain(name))?.(value, rows), shown] as const,
  );
  const shownBy = (sign: Sign) => found.find(([each]) => each === sign)?.[1];
  return shownBy("more") ?? (shownBy("all") === undefined ? shownBy("full") : undefined);
}

type Field = readonly [name: string, value: unknown, shown: string];

/** The fields of a body, and those of the objects in which APIs describe pages, up to two levels down. */
function fieldsOf(body: unknown, levels = 2): Field[] {
  if (!isObject(body)) return [];
  const entries = Object.entries(body);
  const held = levels === 0 ? [] : entries.filter(([name]) => holders.test(plain(name)));
  return [
    ...entries.map(([name, value]): Field => [name, value, `\`${name}\``]),
    ...held.flatMap(([, value]) => fieldsOf(value, levels - 1)),
  ];
}

function headersOf(headers: Headers): Field[] {
  return [...headers]
    .filter(([name]) => name.startsWith("x-"))
    .map(([name, value]) => [name.slice(2), value, `the ${name} header`]);
}

function plain(name: string): string {
  return name.toLowerCase().replace(/[^a-z]/g, "");
}
