import { describeIssue } from "../errors.ts";
import type { Listing } from "../models/listing.ts";
import { toInteger } from "../models/stay.ts";
import { type ApiPromise, apiPromise, callEndpoint, type Http, searchOf, type WithResponse } from "./http.ts";
import {
  type ListPage,
  problemsWithQuery,
  type Query,
  type RequestOptions,
  type Settings,
} from "./options.ts";
import { setListFacts } from "./paging.ts";
import type { Model, Page, Readers } from "./readers.ts";
import { path } from "./urls.ts";

/** The listings of the account: `client.listings`. */
export interface ListingsResource<out L extends Listing = Listing> {
  /**
   * Reads all listings of the account. With the client option `nextPage` it reads page after page, and
   * `withResponse()` gives the last page's answer.
   *
   * @throws ResponseValidationError where the answer holds no list or an invalid row (`error.valid` has the valid
   *   rows), where `nextPage` asks for the same page twice, and after 1,000 pages
   */
  list(options?: RequestOptions): ApiPromise<L[]>;
  /**
   * Reads one listing. The listing in the answer must have this id.
   *
   * @param listingId - an integer, or its digits
   * @throws NotFoundError where there is no such listing
   * @throws ResponseValidationError where the answer holds another listing, or none that is valid
   */
  get(listingId: number | string, options?: RequestOptions): ApiPromise<L>;
}

const maxPages = 1_000;

export function listingsResource<L extends Listing>(
  http: Http,
  readers: Readers,
  model: Model<L>,
  settings: Settings,
): ListingsResource<L> {
  const readPage = (options: RequestOptions | undefined, query: Query) =>
    callEndpoint(http, "GET", path`/v2/listings`, readers.page(model), options, { query }).withResponse();
  return {
    list: (options) => apiPromise(readAll((query) => readPage(options, query), options, settings)),
    get: (listingId, options) => {
      const id = toInteger(listingId) ?? Number.NaN;
      return callEndpoint(
        http,
        "GET",
        path`/v2/listings/${{ listingId: id }}`,
        readers.record(model, id),
        options,
      );
    },
  };
}

/** Reads the pages of a list, one after the other. */
async function readAll<L>(
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
    // Not by a spread: hundreds of thousands of arguments overflow the stack.
    for (const row of page.rows) rows.push(row);
    invalid += page.invalid;
    cut ||= page.cut;
    // The pages after an invalid row are read, too: the error is to have all valid rows.
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

    const hint = nextPage ? undefined : page.hint;
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
  try {
    const query = (await nextPage?.(page)) ?? undefined;
    const [issue] = problemsWithQuery(query, ["query"]);
    return issue ? { problem: `nextPage gave a bad query (${describeIssue(issue)})` } : { query };
  } catch (cause) {
    return { problem: "nextPage threw an error; see cause", cause };
  }
}

/** The same text for queries that ask for the same. */
function keyOf(query: Query): string {
  const search = new URLSearchParams(searchOf(query));
  search.sort();
  return search.toString();
}
