import { shared } from "../copies.ts";
import { check } from "../options.ts";
import type { Page } from "./answer-body.ts";
import type { ApiPromise, WithResponse } from "./api-promise.ts";
import {
  checkRequestOptions,
  type ListPage,
  type QueryInput,
  querySchema,
  type RequestOptions,
  type Settings,
} from "./client-options.ts";
import { searchOf } from "./http.ts";
import { isObject, plainName, toNumber } from "./json.ts";

const maxPages = 1_000;

/**
 * The result of `listings.list()`: a promise of all rows, and an iterable of the rows, page by page. The client sends
 * the requests when you await or iterate the result.
 */
export interface ListPromise<out T> extends ApiPromise<T[]>, AsyncIterable<T> {}

type ReadPage<T> = (options: RequestOptions | undefined, query: QueryInput) => Promise<WithResponse<Page<T>>>;

export function listPromise<T>(
  readPage: ReadPage<T>,
  options: RequestOptions | undefined,
  settings: Settings,
): ListPromise<T> {
  // Read headers and query once: they may be iterators, which give their pairs only once.
  let read: RequestOptions | undefined;
  const once = () => {
    read ??= options && checkRequestOptions(options);
    return read;
  };
  const pages = () => readPages(readPage, once, settings);
  let answered: Promise<WithResponse<T[]>> | undefined;
  const withResponse = () => {
    answered ??= lastOf(pages());
    return answered;
  };
  const rows = async () => (await withResponse()).data;
  return {
    // biome-ignore lint/suspicious/noThenProperty: a promise that begins at the first use, so that a loop can read less.
    then: (done, failed) => rows().then(done, failed),
    catch: (failed) => rows().catch(failed),
    finally: (end) => rows().finally(end),
    withResponse,
    [Symbol.toStringTag]: "Promise",
    async *[Symbol.asyncIterator]() {
      for await (const page of pages()) yield* page;
    },
  };
}

async function lastOf<T>(steps: AsyncGenerator<unknown, T>): Promise<T> {
  for (;;) {
    const { done, value } = await steps.next();
    if (done) return value;
  }
}

/** Reads the pages of a list, one after the other. Yields the valid rows of each page, and returns all of them. */
async function* readPages<T>(
  readPage: ReadPage<T>,
  readOptions: () => RequestOptions | undefined,
  { nextPage, log }: Settings,
): AsyncGenerator<T[], WithResponse<T[]>> {
  const options = readOptions();
  const ofCall = options?.query as QueryInput | undefined;
  const rows: T[] = [];
  const sent: unknown[] = [];
  const asked = new Set<string>();
  const seen = new Set<unknown>();
  let [invalid, cut] = [0, false];
  let failed: Page<T> | undefined;
  for (let query: QueryInput = {}; ; ) {
    const { data: page, response, body } = await readPage(options, query);
    const news = newRows(page, seen);
    // `push(...news)` would overflow the stack for hundreds of thousands of rows.
    for (const index of news) {
      rows.push(page.rows[index]!);
      sent.push(page.sent[index]);
    }
    yield news.map((index) => page.rows[index]!);
    invalid += page.invalid;
    cut ||= page.rows.length + page.invalid < page.length;
    // After an invalid row, read the remaining pages, too, so that the error has all valid rows.
    if (page.invalid > 0) failed ??= page;
    asked.add(keyOf({ ...ofCall, ...query }));

    const next = await askNext(nextPage, { body, response, query });
    const isRepeated = next.query && asked.has(keyOf({ ...ofCall, ...next.query }));
    const problem = isRepeated
      ? "nextPage returned the same query twice"
      : next.query && asked.size >= maxPages
        ? `nextPage asked for more than ${maxPages} pages`
        : next.problem;
    if (problem !== undefined) {
      const error = page.answer.invalid([{ path: [], message: problem }], { cause: next.cause, valid: rows });
      throw setListFacts(error, { partial: true, invalid, sent });
    }
    if (next.query) {
      query = next.query;
      continue;
    }

    const hint = nextPage ? undefined : pagingHint(body, response.headers, page.length);
    const facts = { partial: cut || hint !== undefined, invalid, sent };
    if (failed) throw setListFacts(failed.answer.invalid(failed.issues, { valid: rows }), facts);
    if (hint !== undefined)
      log.warn(
        `the list of listings may be incomplete: ${hint} in the answer hints at more pages. Give the client the option \`nextPage\`.`,
      );
    return { data: setListFacts(rows, facts), response, body };
  }
}

/** Returns the places of the rows that no earlier page had, because listings may move while the pages are read. */
function newRows({ rows }: Page<unknown>, seen: Set<unknown>): number[] {
  const ids = rows.map((row) => (row as { readonly listingId?: unknown }).listingId);
  const news = [...ids.keys()].filter((index) => !seen.has(ids[index]));
  for (const index of news) seen.add(ids[index]);
  return news;
}

interface Next {
  readonly query?: QueryInput | undefined;
  readonly problem?: string;
  readonly cause?: unknown;
}

async function askNext(nextPage: Settings["nextPage"], page: ListPage): Promise<Next> {
  let query: unknown;
  try {
    query = (await nextPage?.(page)) ?? undefined;
  } catch (cause) {
    return { problem: "nextPage threw an error; see error.cause", cause };
  }
  try {
    return { query: check(querySchema, query, { at: ["query"] }) };
  } catch (error) {
    return { problem: `nextPage returned an invalid query (${(error as Error).message})` };
  }
}

/** Returns the same text for queries with the same parameters, in any order. */
function keyOf(query: QueryInput): string {
  const search = new URLSearchParams(searchOf(query));
  search.sort();
  return search.toString();
}

/** The properties of a list that the reconciler needs in addition to the rows. */
export interface ListFacts {
  /** Whether the list may lack rows that the platform has. */
  readonly partial: boolean;
  /** The number of invalid rows. */
  readonly invalid: number;
  /** The valid rows as the platform sent them, in the order of the rows. */
  readonly sent: readonly unknown[];
}

const facts = () => shared("list", () => new WeakMap<object, ListFacts>());

/**
 * Returns the {@link ListFacts} of a result of `client.listings.list()`.
 *
 * @param list - the array of a resolved call, or the `ResponseValidationError` of a rejected call
 * @returns `undefined` if the answer had no list
 */
export function listFactsOf(list: object): ListFacts | undefined {
  return facts().get(list);
}

function setListFacts<T extends object>(list: T, given: ListFacts): T {
  facts().set(list, given);
  return list;
}

/** The hint of a field: more rows exist (`more`), no more rows exist (`all`), or nobody can tell (`maybe`). */
type Sign = "more" | "all" | "maybe" | undefined;

// The usual names of paging fields, in lower case and without separators.
const signs: readonly [names: string, sign: (value: unknown, rows: number) => Sign][] = [
  [
    `next nextpage nextcursor nextpagetoken nexttoken nexturl nextlink odatanextlink nexthref nextpageurl nextoffset
    nextkey nextmarker nextpagecursor cursornext continuationtoken hasmore hasnext hasnextpage hasmoreitems
    hasmoreresults moreavailable moreresults istruncated`,
    (value) => (value && value !== "false" && !(toNumber(value) <= 0) ? "more" : "all"),
  ],
  ["last islast islastpage lastpage complete iscomplete", (value) => lastSigns.get(String(value))],
  // The last page of some APIs has a cursor, too.
  [
    "cursor cursors endcursor pagecursor aftercursor after",
    (cursor) => (cursor && typeof cursor !== "object" ? "maybe" : undefined),
  ],
  [
    "remaining remainingitems remainingcount remainingresults itemsremaining",
    (left) => (toNumber(left) > 0 ? "more" : toNumber(left) === 0 ? "all" : undefined),
  ],
  [
    "totalpages pagecount pages lastpage totalpagecount",
    (pages) => (toNumber(pages) > 1 ? "more" : undefined),
  ],
  [
    "total totalcount totalitems totalresults totalelements totalrecords odatacount",
    (total, rows) => (toNumber(total) > rows ? "more" : toNumber(total) === rows ? "all" : undefined),
  ],
  // In some APIs, `count` is the number of rows on the page, so a `count` equal to `rows` is no hint.
  ["count", (count, rows) => (toNumber(count) > rows ? "more" : undefined)],
  [
    "limit pagesize perpage pagelimit",
    (limit, rows) => (toNumber(limit) > 0 && toNumber(limit) <= rows ? "maybe" : undefined),
  ],
];
const lastSigns = new Map<string, Sign>([
  ["false", "more"],
  ["true", "all"],
]);

/** Returns the first sign that a rule finds in a field. Two rules know `lastPage`: a flag, or a number. */
function signOf(name: string, value: unknown, rows: number): Sign {
  for (const sign of rulesOf.get(plainName(name)) ?? []) {
    const found = sign(value, rows);
    if (found) return found;
  }
  return undefined;
}
const rulesOf = new Map<string, ((value: unknown, rows: number) => Sign)[]>();
for (const [names, sign] of signs)
  for (const name of names.split(/\s+/)) rulesOf.set(name, [...(rulesOf.get(name) ?? []), sign]);

const holders = /^(meta(data)?|pagination|paging|pageinfo|page|links|data|cursors?)$/;

/**
 * Returns the name of the field or header that hints at further pages, or `undefined` if there is no hint.
 *
 * @param rows - the number of rows in the answer
 */
function pagingHint(body: unknown, headers: Headers, rows: number): string | undefined {
  if (/rel\s*=\s*"?[^",;]*\bnext\b/i.test(headers.get("link") ?? "")) return "the Link header";
  const found = [...fieldsOf(body), ...headersOf(headers)].map(
    ([name, value, shown]) => [signOf(name, value, rows), shown] as const,
  );
  found.push([rangeSign(headers.get("content-range") ?? ""), "the Content-Range header"]);
  const shownBy = (sign: Sign) => found.find(([each]) => each === sign)?.[1];
  return shownBy("more") ?? (shownBy("all") === undefined ? shownBy("maybe") : undefined);
}

/** Reads a `Content-Range` header, such as `listings 0-24/100`. */
function rangeSign(range: string): Sign {
  const [, end, total] = /\d+\s*-\s*(\d+)\s*\/\s*(\d+|\*)/.exec(range) ?? [];
  if (end === undefined) return undefined;
  if (total === "*") return "maybe";
  return Number(total) > Number(end) + 1 ? "more" : "all";
}

type Field = readonly [name: string, value: unknown, shown: string];

/** Returns the fields of a body and of its paging objects, such as `meta`, which may be nested two levels deep. */
function fieldsOf(body: unknown, levels = 2, isHolder = false): Field[] {
  if (!isObject(body)) return [];
  // Outside of a paging object, `after` is the newer part of a pair.
  const entries = Object.entries(body).filter(([name]) => isHolder || name !== "after");
  const held = levels === 0 ? [] : entries.filter(([name]) => holders.test(plainName(name)));
  return [
    ...entries.map(([name, value]): Field => [name, value, `\`${name}\``]),
    ...held.flatMap(([name, value]) => fieldsOf(value, levels - 1, plainName(name) !== "data")),
  ];
}

function headersOf(headers: Headers): Field[] {
  return [...headers]
    .filter(([name]) => name.startsWith("x-"))
    .map(([name, value]) => [name.slice(2), value, `the ${name} header`]);
}
