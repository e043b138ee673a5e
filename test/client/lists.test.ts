import { describe, expect, it, vi } from "vitest";
import * as z from "zod";
import type { ListPage, Query } from "../../src/client/client-options.ts";
import { listFactsOf } from "../../src/client/paging.ts";
import { Listing } from "../../src/models/records.ts";
import { clientOf, keepingLogger, platform, type Reply, rejection } from "./support.ts";

const listing = { listingId: 7, status: "Hidden" };
const rows = [listing, { listingId: "8", status: "Published" }];
const read = [listing, { listingId: 8, status: "Published" }];
const answering = async (reply: Reply, options = {}) =>
  clientOf(await platform([reply]), { maxRetries: 0, ...options });

describe("a list", () => {
  it.each([
    [rows],
    [{ listings: rows }],
    [{ data: rows }],
    [{ items: rows, total: 2 }],
    [{ results: rows }],
    [{ data: { listings: rows } }],
    [{ data: { items: rows } }],
    [{ response: { results: rows } }],
    [{ rentals: rows }],
    [{ response: { rentals: rows } }],
    [{ errors: [{ code: 1 }], data: { listings: rows } }],
    [{ amenities: [{ id: 1 }], data: { listings: rows } }],
    [{ facets: [{ id: 1 }], rentals: rows }],
    [{ tags: ["a"], rentals: rows }],
    [{ data: ["a"], results: rows }],
    [{ success: false, error: "late", listings: rows }],
    [{ before: [listing], after: rows }],
    [{ data: { old: [], new: rows } }],
  ])("is found: %j", async (json) => {
    expect(await (await answering({ json })).listings.list()).toEqual(read);
  });

  it.each([
    [[]],
    [{ listings: [] }],
    [{ listings: [], amenities: [{ id: 1 }] }],
    [{ data: { items: [] } }],
    [{ rentals: [] }],
  ])("may have no rows: %j", async (json) => {
    expect(await (await answering({ json })).listings.list()).toEqual([]);
  });

  it.each<[Reply]>([
    [{ status: 204 }],
    [{ text: "" }],
    [{ json: null }],
    [{ json: {} }],
    [{ json: { message: "x" } }],
    [{ json: { errors: [] } }],
    [{ json: { a: [], b: [] } }],
    [{ json: { data: null } }],
    [{ json: { data: ["a"] } }],
    [{ json: { a: { b: { listings: rows } } } }],
    [{ text: "<html></html>" }],
    [{ status: 202, text: "accepted" }],
  ])("is not empty because none was found, so that no listing looks gone: %j", async (reply) => {
    const error = await rejection((await answering(reply)).listings.list());
    expect(error).toMatchObject({ name: "ResponseValidationError", valid: [] });
    expect(listFactsOf(error)).toBeUndefined();
  });

  it.each<[unknown, unknown[][]]>([
    [{ data: rows, rentals: [listing] }, [["data"], ["rentals"]]],
    [{ listings: [], data: rows }, [["listings"], ["data"]]],
    [
      { result: { listings: rows, hidden: [listing] } },
      [
        ["result", "listings"],
        ["result", "hidden"],
      ],
    ],
  ])("is not one of two, of which nobody knows which counts: %j", async (json, paths) => {
    const error = await rejection((await answering({ json })).listings.list());
    expect(error).toMatchObject({ name: "ResponseValidationError", issues: paths.map((path) => ({ path })) });
    for (const path of paths) expect(error.message).toContain(path.join("."));
  });

  it.each([
    [{ success: false }],
    [{ error: "x" }],
    [{ success: false, listings: [] }],
    [{ error: "x", data: [] }],
  ])("is not empty because the answer reports a failure: %j", async (json) => {
    expect(await rejection((await answering({ json })).listings.list())).toMatchObject({
      name: "APIError",
      status: 200,
    });
  });
});

it("a list may have hundreds of thousands of rows", async () => {
  const json = Array.from({ length: 250_000 }, (_, listingId) => ({ listingId, status: "Hidden" }));
  expect(await (await answering({ json })).listings.list()).toHaveLength(250_000);
});

describe("a row that does not validate", () => {
  it.each([
    [
      [listing, { status: "Hidden" }],
      [1, "listingId"],
    ],
    [{ data: { items: [listing, listing, { listingId: 1 }] } }, ["data", "items", 2, "status"]],
    [[listing, null], [1]],
    [["a"], [0]],
  ])("rejects the list, with the row's index in the path: %j", async (json, path) => {
    const error = await rejection((await answering({ json })).listings.list());
    expect(error).toMatchObject({ name: "ResponseValidationError", issues: [{ path }], body: json });
  });

  it("leaves the other rows in error.valid", async () => {
    const json = { data: [rows[0], { listingId: 1 }, null, rows[1]] };
    const error = await rejection((await answering({ json })).listings.list());
    expect(error.valid).toEqual(read);
    expect(listFactsOf(error)).toEqual({ partial: false, invalid: 2 });
  });

  it("leaves rows of the user's model in error.valid", async () => {
    const model = Listing.extend({ beds: z.coerce.number() });
    const json = [{ ...listing, beds: "2" }, listing];
    const error = await rejection(
      (await answering({ json }, { models: { listing: model } })).listings.list(),
    );
    expect(error.valid).toEqual([{ ...listing, beds: 2 }]);
  });

  it("is one of more than 1,000: the reader stops, and the list counts as partial", async () => {
    const json = [listing, ...Array(1_500).fill({ listingId: 1 }), listing];
    const error = await rejection((await answering({ json })).listings.list());
    expect(error.valid).toEqual([listing]);
    expect(listFactsOf(error)).toEqual({ partial: true, invalid: 1_000 });
  });

  it("is reported together with a hint at further pages", async () => {
    const { logger } = keepingLogger();
    const json = { data: [listing, null], total: 9 };
    const error = await rejection((await answering({ json }, { logger })).listings.list());
    expect(listFactsOf(error)).toEqual({ partial: true, invalid: 1 });
  });
});

describe("without nextPage, an answer that hints at further pages", () => {
  it.each<[Reply, string]>([
    [{ json: { data: rows, next: "/v2/listings?page=2" } }, "`next`"],
    [{ json: { data: rows, hasMore: true } }, "`hasMore`"],
    [{ json: { data: rows, meta: { totalPages: 3 } } }, "`totalPages`"],
    [{ json: { data: rows, meta: { pagination: { has_more: true } } } }, "`has_more`"],
    [{ json: { data: rows, total: 30 } }, "`total`"],
    [{ json: { data: rows, count: 3 } }, "`count`"],
    [{ json: { data: rows, limit: 2 } }, "`limit`"],
    [{ json: { data: rows, meta: { per_page: "2" } } }, "`per_page`"],
    [{ json: { data: rows, limit: 2, count: 2 } }, "`limit`"],
    [{ json: { data: rows, limit: 2, next: null, total: 3 } }, "`total`"],
    [{ json: { data: { items: rows, nextPageToken: "x" } } }, "`nextPageToken`"],
    [{ json: { data: rows, _links: { next: { href: "/x" } } } }, "`next`"],
    [{ json: rows, headers: { link: '</v2/listings?page=2>; rel="next"' } }, "the Link header"],
    [{ json: rows, headers: { "x-total-count": "30" } }, "the x-total-count header"],
    [{ json: rows, headers: { "x-next-page": "2" } }, "the x-next-page header"],
  ])("is warned of: %j", async (reply, hint) => {
    const { logger, warnings } = keepingLogger();
    const list = await (await answering(reply, { logger })).listings.list();
    expect(list).toEqual(read);
    expect(warnings).toEqual([
      `stayhook: the list of listings may be incomplete: ${hint} in the answer hints at more pages. Give the client the option \`nextPage\`.`,
    ]);
    expect(listFactsOf(list)).toEqual({ partial: true, invalid: 0 });
  });

  it.each<[Reply]>([
    [{ json: { data: rows, next: null, hasMore: false, total: 2, totalPages: 1, page: 1 } }],
    [
      {
        json: rows,
        headers: { link: '</v2/listings>; rel="self"', "x-total-count": "2", "x-next-page": "" },
      },
    ],
    [{ json: { data: rows, links: { next: null, prev: "/x" } } }],
    [{ json: { data: rows, limit: 2, total: 2 } }],
    [{ json: { data: rows, limit: 2, hasMore: false } }],
    [{ json: { data: rows, limit: 20, count: 2, total: null } }],
    [{ json: { data: rows, limit: 0 } }],
    [{ json: { data: rows, total: { toString: 1, valueOf: 1 }, count: {}, limit: [] } }],
    [{ json: { data: [], limit: 0, total: 0 } }],
  ])("is told from one that is whole: %j", async (reply) => {
    const { logger, warnings } = keepingLogger();
    const list = await (await answering(reply, { logger })).listings.list();
    expect(warnings).toEqual([]);
    expect(listFactsOf(list)).toEqual({ partial: false, invalid: 0 });
  });

  it("is warned of on the console by default", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    try {
      await (await answering({ json: { data: rows, next: "x" } })).listings.list();
      expect(warn.mock.calls).toEqual([[expect.stringContaining("more pages")]]);
    } finally {
      warn.mockRestore();
    }
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

  it("gives the query of the page after, and all pages are read", async () => {
    const server = await paged(3);
    const seen: ListPage[] = [];
    const { logger, warnings } = keepingLogger();
    const client = clientOf(server, {
      logger,
      nextPage: (page) => {
        seen.push(page);
        return until(3)(page);
      },
    });
    const { data, response, body } = await client.listings.list().withResponse();
    expect(data).toEqual([row(1), row(2), row(3)]);
    expect(response.headers.get("x-page")).toBe("3");
    expect(body).toEqual({ data: [row(3)], page: 3, limit: 1 });
    expect(seen.map(({ query }) => query)).toEqual([{}, { page: 2 }, { page: 3 }]);
    expect(seen.map((page) => page.response.headers.get("x-page"))).toEqual(["1", "2", "3"]);
    expect(seen[0]?.body).toEqual({ data: [row(1)], page: 1, limit: 1 });
    expect(server.requests.map(({ url }) => url)).toEqual([
      "/v2/listings",
      "/v2/listings?page=2",
      "/v2/listings?page=3",
    ]);
    expect(warnings).toEqual([]);
    expect(listFactsOf(data)).toEqual({ partial: false, invalid: 0 });
  });

  it("may be asynchronous, and may give null after the last page", async () => {
    const server = await paged(2);
    const nextPage = async (page: ListPage) => until(2)(page) ?? (null as never);
    expect(await clientOf(server, { nextPage }).listings.list()).toEqual([row(1), row(2)]);
  });

  it("adds to the query of the call, and each page has the call's headers", async () => {
    const server = await paged(2);
    const client = clientOf(server, { nextPage: until(2) });
    await client.listings.list({ query: { status: "Hidden", page: 1 }, headers: { "x-a": "b" } });
    expect(server.requests.map(({ url, headers }) => [url, headers["x-a"]])).toEqual([
      ["/v2/listings?status=Hidden&page=1", "b"],
      ["/v2/listings?status=Hidden&page=2", "b"],
    ]);
  });

  it.each([
    ["the first page's", {}, [{}]],
    ["the one before", {}, [{ page: 2 }, { page: 2 }]],
    [
      "in another order",
      {},
      [
        { a: 1, page: 2 },
        { page: 2, a: 1 },
      ],
    ],
    ["as text", {}, [{ page: 2 }, { page: "2" }]],
    ["an earlier one", {}, [{ page: 2 }, { page: 3 }, { page: 2 }]],
    ["the call's own", { page: 1 }, [{ page: 1 }]],
    ["nothing beside the call's own", { limit: 1 }, [{}]],
  ])("that gives the same query twice rejects the list: %s", async (_, query, given) => {
    const server = await paged(9);
    let calls = 0;
    const nextPage = (): Query | undefined => given[calls++];
    const error = await rejection(clientOf(server, { nextPage }).listings.list({ query }));
    expect(error).toMatchObject({
      name: "ResponseValidationError",
      message: expect.stringContaining("nextPage returned the same query twice"),
      issues: [{ path: [] }],
    });
    expect(server.requests).toHaveLength(given.length);
    expect(listFactsOf(error)).toEqual({ partial: true, invalid: 0 });
    expect(error.valid).toHaveLength(given.length);
  });

  it("is followed for 1,000 pages, and not one more", { timeout: 20_000 }, async () => {
    const server = await paged(2_000);
    expect(await clientOf(server, { nextPage: until(1_000) }).listings.list()).toHaveLength(1_000);
    const error = await rejection(clientOf(server, { nextPage: until(1_001) }).listings.list());
    expect(error).toMatchObject({
      name: "ResponseValidationError",
      message: expect.stringContaining("more than 1000 pages"),
    });
    expect(error.valid).toHaveLength(1_000);
    expect(server.requests).toHaveLength(2_000);
  });

  it("that throws or gives a bad query rejects the list", async () => {
    const cause = new Error("mine");
    const bad: [() => never, string, unknown][] = [
      [
        () => {
          throw cause;
        },
        "nextPage threw",
        cause,
      ],
      [() => "page=2" as never, "nextPage returned an invalid query", undefined],
      [() => ({ page: {} }) as never, "nextPage returned an invalid query (query.page", undefined],
    ];
    for (const [nextPage, message, thrown] of bad) {
      const error = await rejection(clientOf(await paged(2), { nextPage }).listings.list());
      expect(error).toMatchObject({
        name: "ResponseValidationError",
        message: expect.stringContaining(message),
        valid: [row(1)],
      });
      expect(error.cause).toBe(thrown);
    }
  });

  it("is followed past a row that does not validate: the error has the valid rows of all pages", async () => {
    const server = await paged(3, (page) => ({
      data: page === 2 ? [{ listingId: 2 }, row(20)] : [row(page)],
      page,
    }));
    const error = await rejection(clientOf(server, { nextPage: until(3) }).listings.list());
    expect(error).toMatchObject({
      name: "ResponseValidationError",
      issues: [{ path: ["data", 0, "status"] }],
    });
    expect(error.body).toMatchObject({ page: 2 });
    expect(error.valid).toEqual([row(1), row(20), row(3)]);
    expect(listFactsOf(error)).toEqual({ partial: false, invalid: 1 });
  });

  it("is not asked where a page cannot be read", async () => {
    const server = await platform(({ url }) =>
      search(url).has("page") ? { status: 403 } : { json: { data: [row(1)], page: 1 } },
    );
    const nextPage = vi.fn(until(9));
    expect(await rejection(clientOf(server, { nextPage }).listings.list())).toMatchObject({ status: 403 });
    expect(nextPage).toHaveBeenCalledOnce();
  });

  it("ends when the call's signal aborts", async () => {
    const server = await paged(9);
    const controller = new AbortController();
    const nextPage = (page: ListPage) => {
      if ((page.body as { page: number }).page === 2) controller.abort("enough");
      return until(9)(page);
    };
    const error = await rejection(
      clientOf(server, { nextPage }).listings.list({ signal: controller.signal }),
    );
    expect(error).toMatchObject({ name: "AbortError", cause: "enough" });
    expect(server.requests).toHaveLength(2);
  });

  it("for await gives the rows of each page before the next page is read, and may end early", async () => {
    const server = await paged(3);
    const client = clientOf(server, { nextPage: until(3) });
    const seen: unknown[] = [];
    for await (const { listingId } of client.listings.list()) seen.push([listingId, server.requests.length]);
    expect(seen).toEqual([
      [1, 1],
      [2, 2],
      [3, 3],
    ]);
    for await (const { listingId } of client.listings.list()) if (listingId === 2) break;
    expect(server.requests).toHaveLength(5);
  });

  it("for await gives all valid rows, and then throws for an invalid one", async () => {
    const server = await paged(2, (page) => ({
      data: page === 1 ? [{ listingId: 1 }, row(10)] : [row(2)],
      page,
    }));
    const seen: number[] = [];
    const loop = async () => {
      for await (const { listingId } of clientOf(server, { nextPage: until(2) }).listings.list())
        seen.push(listingId);
    };
    expect(await rejection(loop())).toMatchObject({
      name: "ResponseValidationError",
      valid: [row(10), row(2)],
    });
    expect(seen).toEqual([10, 2]);
  });

  it("is asked once, however often the result is awaited, and not at all if nobody does", async () => {
    const server = await paged(2);
    const list = clientOf(server, { nextPage: until(2) }).listings.list();
    expect(server.requests).toEqual([]);
    expect(await list).toEqual([row(1), row(2)]);
    expect(await list.then((rows) => rows.length)).toBe(2);
    expect((await list.withResponse()).data).toBe(await list.finally(() => {}));
    expect(server.requests).toHaveLength(2);
    const failing = clientOf(await platform([{ status: 403 }])).listings.list();
    expect(await failing.catch((error) => error.status)).toBe(403);
  });
});
