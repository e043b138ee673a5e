import { check } from "../options.ts";
import { isObject, type Page, toNumber } from "./answer-body.ts";
import {
  type ListPage,
  type Query,
  querySchema,
  type RequestOptions,
  type Settings,
} from "./client-options.ts";
import { searchOf, type WithResponse } from "./http.ts";

const maxPages = 1_000;

/** Reads the pages of a list, one after the other. */
export async function readAll<L>(
  readPage: (query: Query) => Promise<WithResponse<Page<L>>>,
  options: RequestOptions | undefined,
  { nextPage, log }: Settings,
): Promise<WithResponse<L[]>> {
  const rows: L[] = [];
  const asked = new Set<string>();
  let [invalid, cut] = [0, false];
  let failed: Page<L> | undefined;
  for (let query: Query = {}; ; ) {
    const { data: page, response, body } = await readPage(query);
    // A spread would overflow the stack for hundreds of thousands of rows.
    for (const row of page.rows) rows.push(row);
    invalid += page.invalid;
    cut ||= page.rows.length + page.invalid < page.length;
    // Read the pages after an invalid row, too, so that the error has all valid rows.
    if (page.invalid > 0) failed ??= page;
    asked.add(keyOf({ ...options?.query, ...query }));

    const next = await askNext(nextPage, { body, response, query });
    const isRepeated = next.query && asked.has(keyOf({ ...options?.query, ...next.query }));
    const problem = isRepeated
      ? "nextPage gave the same query twice"
      : next.query && asked.size >= maxPages
        ? `nextPage asked for more than ${maxPages} pages`
        : next.problem;
    if (problem !== undefined) {
      const error = page.answer.invalid([{ path: [], message: problem }], { cause: next.cause, valid: rows });
      throw setListFacts(error, { partial: true, invalid });
    }
    if (next.query) {
      query = next.query;
      continue;
    }

    const hint = nextPage ? undefined : pagingHint(body, response.headers, page.length);
    const facts = { partial: cut || hint !== undefined, invalid };
    if (failed) throw setListFacts(failed.answer.invalid(failed.issues, { valid: rows }), facts);
    if (hint !== undefined)
      log.warn(
        `the list of listings may have further pages, which were not read: see ${hint}. Give the client the option nextPage.`,
      );
    return { data: setListFacts(rows, facts), response, body };
  }
}

interface Next {
  readonly query?: Query | undefined;
  readonly problem?: string;
  readonly cause?: unknown;
}

async function askNext(nextPage: Settings["nextPage"], page: ListPage): Promise<Next> {
  let query: Query | undefined;
  try {
    query = (await nextPage?.(page)) ?? undefined;
  } catch (cause) {
    return { problem: "nextPage threw an error; see cause", cause };
  }
  try {
    check(querySchema, query, { at: ["query"] });
    return { query };
  } catch (error) {
    return { problem: `nextPage gave a bad query (${(error as Error).message})` };
  }
}

/** A text that is equal for queries with the same parameters. */
function keyOf(query: Query): string {
  const search = new URLSearchParams(searchOf(query));
  search.sort();
  return search.toString();
}

/** The facts of a list that the reconciler and the command line need beside its rows. */
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

/** The meaning of a field: rows are missing (`more`), none is (`all`), or the page is full, which proves nothing. */
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
