import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import * as z from "zod";
import type { ListPage, QueryInput } from "../../src/client/client-options.ts";
import { listFactsOf } from "../../src/client/paging.ts";
import { Listing } from "../../src/models/records.ts";
import { sized } from "../support/soak.ts";
import { layers, wrap } from "./answer-forms.ts";
import {
  answering,
  clientOf,
  keepingLogger,
  type Platform,
  platform,
  type Reply,
  rejection,
} from "./support.ts";

const listing = { listingId: 7, status: "Hidden" };
const rows = [listing, { listingId: "8", status: "Published" }];
const read = [listing, { listingId: 8, status: "Published" }];
const list = async (reply: Reply, options = {}) => (await answering(reply, options)).listings.list();

describe("a list", () => {
  it("is found in any envelope, beside any other array", async () => {
    const others = fc.subarray([
      ["errors", [{ code: 1 }]],
      ["amenities", [{ id: 1 }]],
      ["tags", ["a"]],
      ["before", [listing]],
      ["success", false],
    ] as [string, unknown][]);
    const names = fc.constantFrom("listings", "data", "items", "results", "rentals");
    const wrappers = fc.array(layers, { maxLength: 1 });
    await fc.assert(
      fc.asyncProperty(names, wrappers, others, async (name, envelope, further) => {
        const payload = { ...Object.fromEntries(further), [name]: rows };
        const { json } = wrap(payload, { wrappers: envelope, arrayAt: undefined });
        expect(await list({ json })).toEqual(read);
      }),
      { numRuns: sized(25, 80) },
    );
    expect(await list({ json: rows })).toEqual(read);
    expect(await list({ json: { data: ["a"], results: rows } })).toEqual(read);
    expect(await list({ json: { data: { old: [], new: rows } } })).toEqual(read);
  });

  it.each<[unknown]>([
    [[]],
    [{ listings: [], amenities: [{ id: 1 }] }],
    [{ data: { items: [] } }],
    [{ rentals: [] }],
    ...[
      { status: 200 },
      { status: "success" },
      { Status: "OK" },
      { code: 0 },
      { code: "200" },
      { code: "OK" },
      { code: "NO_ERROR" },
      { message: "ok" },
      { message: "Success" },
      { message: "Listings retrieved successfully." },
      { message: "No listings found" },
      { message: "", messages: [] },
      { success: true, error: null, errors: [], error_code: 0, warnings: ["slow"] },
      { success: 1 },
      { errorCode: 0, errorDescription: "Success" },
      { status: { code: 200, message: "OK" }, meta: { page: 1, status: 200 } },
      { status: "Published", title: "Listings that are not published" },
    ].map((beside): [unknown] => [{ ...beside, data: [] }]),
    [{ code: 0, data: { status: "ok", listings: [] } }],
    // Beside another empty list, the usual names tell which one it is.
    ...["listings", "data", "items", "results"].map((name): [unknown] => [{ warnings: [], [name]: [] }]),
  ])("may have no rows: %j", async (json) => {
    expect(await list({ json })).toEqual([]);
  });

  it.each<[Reply, string]>([
    [{ status: 204 }, "ResponseValidationError"],
    [{ json: {} }, "ResponseValidationError"],
    [{ json: { errors: [] } }, "ResponseValidationError"],
    [{ json: { a: [], b: [] } }, "ResponseValidationError"],
    [{ json: { data: null } }, "ResponseValidationError"],
    [{ json: { data: ["a"] } }, "ResponseValidationError"],
    [{ json: { a: { b: { listings: rows } } } }, "ResponseValidationError"],
    [{ status: 202, text: "accepted" }, "ResponseValidationError"],
    [{ json: { error: "x" } }, "APIError"],
    [{ json: { success: false, listings: [] } }, "APIError"],
    [{ json: { error: "x", data: [] } }, "APIError"],
    ...[
      { status: 500 },
      { Status: "503" },
      { status: "error" },
      { status: "down" },
      { status: { code: 500 } },
      { statusCode: 429 },
      { code: "ERR" },
      { code: "UNAVAILABLE" },
      { code: 17 },
      { Success: false },
      { success: 0 },
      { ok: false },
      { Error: "x" },
      { error_code: "E1" },
      { result: "failure" },
      { message: "unavailable" },
      { message: "The service is not available. Try again later." },
      { message: "request was unsuccessful" },
      { message: "rate limit exceeded" },
      { message: "please log in" },
      { messages: ["internal error"] },
      { detail: "maintenance" },
      { meta: { status: 503 } },
      { error_description: "the index is being rebuilt" },
      { data: { error: "x" } },
      { result: { success: false } },
      { response: { status: "error" } },
    ].map((beside): [Reply, string] => [{ json: { ...beside, listings: [] } }, "APIError"]),
    [{ json: { data: { status: 500, items: [] } } }, "APIError"],
  ])("is not empty because none was found, so that no listing looks deleted: %j", async (reply, name) => {
    const error = await rejection(list(reply));
    expect(error.name).toBe(name);
    expect(listFactsOf(error)).toBeUndefined();
  });

  it.each<[unknown, string[]]>([
    [{ data: rows, rentals: [listing] }, ["data", "rentals"]],
    [{ listings: [], data: rows }, ["listings", "data"]],
    [{ result: { listings: rows, hidden: [listing] } }, ["result.listings", "result.hidden"]],
  ])("is not one of two if nobody knows which counts: %j", async (json, paths) => {
    const error = await rejection(list({ json }));
    expect((error.issues as { path: string[] }[]).map(({ path }) => path.join("."))).toEqual(paths);
    for (const path of paths) expect(error.message).toContain(path);
  });

  it("may have hundreds of thousands of rows", async () => {
    const json = Array.from({ length: 250_000 }, (_, listingId) => ({ listingId, status: "Hidden" }));
    expect(await list({ json })).toHaveLength(250_000);
  });
});

describe("an invalid row", () => {
  it("rejects the list with the row's path, and leaves the other rows in error.valid", async () => {
    const json = { data: { items: [rows[0], { listingId: 1 }, null, rows[1]] } };
    const error = await rejection(list({ json }));
    expect(error).toMatchObject({
      name: "ResponseValidationError",
      issues: [{ path: ["data", "items", 1, "status"] }, { path: ["data", "items", 2] }],
      body: json,
      valid: read,
    });
    expect(listFactsOf(error)).toMatchObject({ partial: false, invalid: 2 });
    const listings = Listing.extend({ beds: z.coerce.number() });
    const own = list({ json: [{ ...listing, beds: "2" }, listing] }, { models: { listing: listings } });
    expect((await rejection(own)).valid).toEqual([{ ...listing, beds: 2 }]);
  });

  it("is the last of 1,000 that the client reads: the list then counts as partial", async () => {
    const error = await rejection(list({ json: [listing, ...Array(1_500).fill({ listingId: 1 }), listing] }));
    expect(error.valid).toEqual([listing]);
    expect(listFactsOf(error)).toMatchObject({ partial: true, invalid: 1_000 });
    const hinted = await rejection(list({ json: { data: [listing, null], total: 9 } }));
    expect(listFactsOf(hinted)).toMatchObject({ partial: true, invalid: 1 });
  });
});

describe("without nextPage, an answer that hints at further pages", () => {
  it.each<[Reply, string]>([
    [{ json: { data: rows, next: "/v2/listings?page=2" } }, "`next`"],
    [{ json: { data: rows, meta: { pagination: { has_more: true } } } }, "`has_more`"],
    [{ json: { data: rows, meta: { totalPages: 3 } } }, "`totalPages`"],
    [{ json: { data: rows, count: 3 } }, "`count`"],
    [{ json: { data: rows, meta: { per_page: "2" } } }, "`per_page`"],
    [{ json: { data: rows, limit: 2, next: null, total: 3 } }, "`total`"],
    [{ json: { data: { items: rows, nextPageToken: "x" } } }, "`nextPageToken`"],
    [{ json: { data: rows, _links: { next: { href: "/x" } } } }, "`next`"],
    [{ json: rows, headers: { link: '</v2/listings?page=2>; rel="next"' } }, "the Link header"],
    [{ json: rows, headers: { "x-total-count": "30" } }, "the x-total-count header"],
    [{ json: { value: rows, "@odata.nextLink": "https://h.example/?$skip=2" } }, "`@odata.nextLink`"],
    [{ json: { data: rows, cursor: "abc" } }, "`cursor`"],
    [{ json: { data: rows, cursors: { after: "abc" } } }, "`after`"],
    [{ json: { data: rows, pageInfo: { endCursor: "abc" } } }, "`endCursor`"],
    [{ json: { data: rows, next_cursor: "abc" } }, "`next_cursor`"],
    [{ json: { data: rows, nextPageCursor: "abc" } }, "`nextPageCursor`"],
    [{ json: { data: rows, cursors: "abc" } }, "`cursors`"],
    [{ json: { data: rows, paging: { nextOffset: 2 } } }, "`nextOffset`"],
    [{ json: { content: rows, last: false } }, "`last`"],
    [{ json: { data: rows, meta: { isLastPage: false } } }, "`isLastPage`"],
    [{ json: { data: rows, lastPage: "3" } }, "`lastPage`"],
    [{ json: { data: rows, remaining: 5 } }, "`remaining`"],
    [{ json: rows, headers: { "content-range": "listings 0-1/30" } }, "the Content-Range header"],
    [{ json: rows, headers: { "content-range": "items 0-1/*" } }, "the Content-Range header"],
  ])("is a warning: %j", async (reply, hint) => {
    const { logger, warnings } = keepingLogger();
    const found = await list(reply, { logger });
    expect(found).toEqual(read);
    expect(warnings).toEqual([
      `stayhook: the list of listings may be incomplete: ${hint} in the answer hints at more pages. Give the client the option \`nextPage\`.`,
    ]);
    expect(listFactsOf(found)).toMatchObject({ partial: true, invalid: 0 });
  });

  it.each<[Reply]>([
    [{ json: { data: rows, next: null, hasMore: false, total: 2, totalPages: 1, page: 1 } }],
    [{ json: rows, headers: { link: '</v2/listings>; rel="self"', "x-next-page": "" } }],
    [{ json: { data: rows, totalPages: 1 } }],
    [{ json: { data: rows, links: { next: null, prev: "/x" } } }],
    [{ json: { data: rows, limit: 2, total: 2 } }],
    [{ json: { data: rows, limit: 2, hasMore: false } }],
    [{ json: { data: rows, total: { toString: 1, valueOf: 1 }, count: {}, limit: [] } }],
    [{ json: { data: [], limit: 0, total: 0 } }],
    [{ json: { value: rows, "@odata.count": 2, cursor: "" } }],
    [{ json: { data: rows, pageInfo: { hasNextPage: false, endCursor: "abc" } } }],
    [{ json: { data: rows, nextOffset: null, isLastPage: true, remaining: 0 } }],
    [{ json: { data: rows, nextOffset: -1, last: true, cursor: "abc" } }],
    [{ json: { data: rows, links: { last: "/v2/listings?page=1" } } }],
    [{ json: rows, headers: { "content-range": "items 0-1/2", "x-ratelimit-remaining": "99" } }],
  ])("is told from a complete answer: %j", async (reply) => {
    const { logger, warnings } = keepingLogger();
    expect(listFactsOf(await list(reply, { logger }))).toMatchObject({ partial: false, invalid: 0 });
    expect(warnings).toEqual([]);
  });

  it("is a warning on the console by default", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    await list({ json: { data: rows, next: "x" } }).then();
    expect(warn.mock.calls).toEqual([[expect.stringContaining("more pages")]]);
    warn.mockRestore();
  });
});

describe("nextPage", () => {
  const row = (listingId: number) => ({ listingId, status: "Hidden" });
  const search = (url: string) => new URL(url, "http://h").searchParams;

  /** Makes a platform with pages of one row. Pages past the last one are empty. */
  const paged = (pages: number, body = (page: number): unknown => ({ data: [row(page)], page, limit: 1 })) =>
    platform(({ url }) => {
      const page = Number(search(url).get("page") ?? 1);
      return { json: page > pages ? { data: [] } : body(page), headers: { "x-page": String(page) } };
    });
  const until = (pages: number) => (page: ListPage) => {
    const number = (page.body as { page: number }).page;
    return number < pages ? { page: number + 1 } : undefined;
  };
  const listed = (
    server: Platform,
    nextPage: (page: ListPage) => QueryInput | undefined | Promise<QueryInput | undefined>,
  ) => clientOf(server, { nextPage }).listings.list();

  it("gets each page, and gives the query of the next one", async () => {
    const server = await paged(3);
    const { logger, warnings } = keepingLogger();
    const nextPage = vi.fn(async (page: ListPage) => until(3)(page) ?? (null as never));
    const call = clientOf(server, { logger, nextPage }).listings.list({
      query: { status: "Hidden", page: 1 },
      headers: { "x-a": "b" },
    });
    expect(server.requests).toEqual([]); // nobody awaits the list
    const { data, response, body } = await call.withResponse();
    expect(data).toEqual([row(1), row(2), row(3)]);
    expect(response.headers.get("x-page")).toBe("3");
    expect(body).toEqual({ data: [row(3)], page: 3, limit: 1 });
    const pages = nextPage.mock.calls.map(([page]) => [page.response.headers.get("x-page"), page.query.page]);
    expect(pages).toEqual([["1", undefined], ...[2, 3].map((page) => [`${page}`, page])]);
    expect(server.requests.map(({ url, headers }) => `${url} ${headers["x-a"]}`)).toEqual(
      [1, 2, 3].map((page) => `/v2/listings?status=Hidden&page=${page} b`),
    );
    expect(warnings).toEqual([]);
    expect(listFactsOf(data)).toMatchObject({ partial: false, invalid: 0 });
    // Another use of the same result sends nothing.
    expect(await call.then((all) => all.length)).toBe(3);
    expect(await call.finally(() => {})).toBe(data);
    expect(server.requests).toHaveLength(3);
    expect(await list({ status: 403 }).catch((error) => error.status)).toBe(403);
  });

  it.each<[QueryInput, QueryInput[]]>([
    [{}, [{}]],
    [{}, [{ page: 2 }, { page: "2" }]],
    [
      { limit: 2 },
      [
        { page: 2, a: 1 },
        { a: 1, page: 2 },
      ],
    ],
    [{}, [{ page: 2 }, { page: 3 }, { page: 2 }]],
    [{ limit: 1 }, [{}]],
  ])("must not give the same query twice: %j, then %j", async (query, given) => {
    const server = await paged(9);
    const queries = [...given];
    const call = clientOf(server, { nextPage: () => queries.shift() }).listings.list({ query });
    const error = await rejection(call);
    expect(error.name).toBe("ResponseValidationError");
    expect(error.message).toContain("nextPage returned the same query twice");
    expect(server.requests).toHaveLength(given.length);
    expect(listFactsOf(error)).toMatchObject({ partial: true, invalid: 0 });
    expect(error.valid).toHaveLength(given.length);
  });

  it("is followed for 1,000 pages, and not one more", async () => {
    const server = await paged(2_000);
    expect(await listed(server, until(1_000))).toHaveLength(1_000);
    const error = await rejection(listed(server, until(1_001)));
    expect(error.message).toContain("more than 1000 pages");
    expect(error.valid).toHaveLength(1_000);
    expect(server.requests).toHaveLength(2_000);
  });

  it("gives a row once that moves to a later page while the list is read", async () => {
    const moving = await paged(3, (page) => ({ data: page === 2 ? [row(1), row(2)] : [row(page)], page }));
    expect(await listed(moving, until(3))).toEqual([row(1), row(2), row(3)]);
  });

  it("that throws or gives an invalid query rejects the list", async () => {
    const cause = new Error("mine");
    const thrown = await rejection(listed(await paged(2), () => Promise.reject(cause)));
    expect(thrown).toMatchObject({ name: "ResponseValidationError", valid: [row(1)], cause });
    for (const query of ["page=2", { page: {} }]) {
      const error = await rejection(listed(await paged(2), () => query as never));
      expect(error.message).toContain("nextPage returned an invalid query (query");
      expect(error).toMatchObject({ name: "ResponseValidationError", valid: [row(1)] });
    }
  });

  it("is not asked if a page cannot be read, or after an abort", async () => {
    const server = await platform(({ url }) =>
      search(url).has("page") ? { status: 403 } : { json: { data: [row(1)], page: 1 } },
    );
    const nextPage = vi.fn(until(9));
    expect(await rejection(listed(server, nextPage))).toMatchObject({ status: 403 });
    expect(nextPage).toHaveBeenCalledOnce();
    const controller = new AbortController();
    const aborting = (page: ListPage) => {
      controller.abort("enough");
      return until(9)(page);
    };
    const endless = await paged(9);
    const { signal } = controller;
    const call = clientOf(endless, { nextPage: aborting }).listings.list({ signal });
    expect(await rejection(call)).toMatchObject({ name: "AbortError", cause: "enough" });
    expect(endless.requests).toHaveLength(1);
  });

  it("lets for await have the rows of each page before the next page is read, and end early", async () => {
    const server = await paged(3);
    const seen: string[] = [];
    for await (const { listingId } of listed(server, until(3)))
      seen.push(`${listingId} after ${server.requests.length}`);
    expect(seen).toEqual(["1 after 1", "2 after 2", "3 after 3"]);
    for await (const { listingId } of listed(server, until(3))) if (listingId === 2) break;
    expect(server.requests).toHaveLength(5);
  });

  it("is asked past an invalid row: the loop and the error have the valid rows of all pages", async () => {
    const server = await paged(3, (page) => ({
      data: page === 2 ? [{ listingId: 2 }, row(20)] : [row(page)],
      page,
    }));
    const seen: number[] = [];
    const loop = async () => {
      for await (const { listingId } of listed(server, until(3))) seen.push(listingId);
    };
    const error = await rejection(loop());
    const issues = [{ path: ["data", 0, "status"] }];
    expect(error).toMatchObject({ issues, body: { page: 2 }, valid: [row(1), row(20), row(3)] });
    expect(seen).toEqual([1, 20, 3]);
    expect(listFactsOf(error)).toMatchObject({ partial: false, invalid: 1 });
  });
});
