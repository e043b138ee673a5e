import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { stay } from "../../src/models/dates.ts";
import { sized } from "../support/soak.ts";
import { seedOf } from "../system/random.ts";
import {
  beside,
  envelopes,
  identities,
  type Kind,
  kinds,
  layers,
  type Path,
  records,
  sentAndGiven,
  wrap,
} from "./answer-forms.ts";
import {
  answering,
  clientOf,
  keepingLogger,
  type Platform,
  platform,
  type Reply,
  rejection,
} from "./support.ts";

// The platform's bodies are not documented. The client must return the same record for every form of the body. If the
// body has no valid record, the client must say that there is none, or throw an error with the path in the body.

const seed = seedOf("ANSWERS");
const booking = { bookingCode: "A", status: "Request" };
const config = { isActive: true, endpoints: { bookings: "https://hooks.example/b" } };

let answer: Reply;
let server: Platform;
beforeEach(async () => {
  server = await platform(() => answer);
});

/** Reads the record of a kind while the platform gives this answer. */
function ask(kind: Kind, reply: Reply): Promise<unknown> {
  answer = reply;
  const client = clientOf(server, { logger: () => {}, maxRetries: 0 });
  if (kind === "booking") return client.bookings.get("HX3K9");
  return kind === "listing" ? client.listings.get(7) : client.webhookConfig.get();
}

const outcomeOf = (kind: Kind, reply: Reply) => ask(kind, reply).catch((error) => error.name as string);
const missing = (kind: Kind) => (kind === "config" ? undefined : "NotFoundError");
const check = <T>(property: fc.IAsyncProperty<T>) => fc.assert(property, { seed, numRuns: sized(60, 200) });

describe(`whatever the form of the answer (seed ${seed})`, () => {
  it("the client gives the same record", async () => {
    await check(
      fc.asyncProperty(records, envelopes, async (record, envelope) => {
        const { sent, given } = sentAndGiven(record);
        const read = await ask(record.kind, { json: wrap(sent, envelope).json });
        expect(read).toEqual(given);
        if (record.kind === "booking" && record.dates[0] && record.dates[0] !== "soon")
          expect(stay(read as object, { timeZone: "UTC" })).toEqual({
            checkIn: "2026-07-01",
            checkOut: "2026-07-04",
            nights: 3,
          });
      }),
    );
  });

  it("another record, or a broken one, is an error that names the path", async () => {
    const flaws = ["other", "no identity", "bad identity", "no status", "bad status", "text", "two"];
    await check(
      fc.asyncProperty(records, envelopes, fc.constantFrom(...flaws), async (record, envelope, flaw) => {
        const { kind } = record;
        const { sent } = sentAndGiven({ ...record, further: [] });
        const second = kind === "config" ? "endpoints" : "status";
        const field = flaw.endsWith("identity") || flaw === "other" ? identities[kind] : second;
        let flawed: unknown = { ...sent, [field]: kind === "booking" ? "HX3K8" : 8 };
        if (flaw.startsWith("no ")) flawed = { ...sent, [field]: undefined };
        if (flaw.startsWith("bad ")) flawed = { ...sent, [field]: [5] };
        if (flaw === "text") flawed = "maintenance";
        // The body does not tell which of the two records was requested.
        if (flaw === "two") flawed = [sent, sent];
        const { json, path } = wrap(JSON.parse(JSON.stringify(flawed)), envelope);
        const error = await rejection(ask(kind, { json }));
        expect(error).toMatchObject({ name: "ResponseValidationError", body: json });
        const paths = (error.issues as { path: Path }[]).map((issue) => issue.path.join("."));
        if (flaw === "other" || flaw.includes("status") || flaw === "bad identity")
          expect(paths).toContain([...path, field].join("."));
        else expect(paths.length).toBeGreaterThan(0);
      }),
    );
  });

  it("a record within three wrappers is not found", async () => {
    await check(
      fc.asyncProperty(records, fc.tuple(layers, layers, layers), async (record, wrappers) => {
        const { sent } = sentAndGiven({ ...record, further: [] });
        const { json } = wrap(sent, { wrappers, arrayAt: undefined });
        expect(await outcomeOf(record.kind, { json })).toBe("ResponseValidationError");
      }),
    );
  });

  it("an empty payload means that there is no record, but not if the body reports trouble", async () => {
    const troubles = fc.constantFrom<[string, unknown]>(
      ["success", false],
      ["error", "database down"],
      ["error", { code: 7 }],
      ["errors", [{ message: "database down" }]],
      ["code", "500"],
      ["code", "ERR"],
      ["status", "failed"],
      ["status", 503],
      ["statusCode", "502"],
      ["errorCode", "error.timeout"],
      ["message", "Error: timeout"],
      ["message", { text: "timeout" }],
    );
    const payloads = fc.constantFrom<unknown>(null, {});
    const names = fc.constantFrom("data", "booking", "listing", "config", "result");
    await check(
      fc.asyncProperty(
        kinds,
        payloads,
        names,
        beside,
        fc.option(troubles),
        async (kind, payload, name, fields, trouble) => {
          const json = { ...Object.fromEntries(fields), [name]: payload };
          expect(await outcomeOf(kind, { json })).toBe(missing(kind));
          if (!trouble) return;
          const down = await outcomeOf(kind, { json: { ...json, [trouble[0]]: trouble[1] } });
          expect(down).toMatch(/^(APIError|ResponseValidationError)$/);
        },
      ),
    );
  });

  it("404 and 410 mean that there is no record, in the status line and in the envelope", async () => {
    const fields = fc.subarray([
      ["error", "x"],
      ["success", false],
      ["message", "Error"],
      ["data", { a: 1 }],
    ] as [string, unknown][]);
    const codes = fc.constantFrom(404, 410, "404");
    const places = fc.constantFrom("code", "status", "line");
    await check(
      fc.asyncProperty(kinds, codes, places, fields, async (kind, code, place, rest) => {
        const json = { ...Object.fromEntries(rest), ...(place !== "line" && { [place]: code }) };
        const status = place === "line" ? Number(code) : 200;
        expect(await outcomeOf(kind, { status, json })).toBe(missing(kind));
      }),
    );
  });

  it("any other JSON is an error of this package, or means that there is no configuration", async () => {
    await check(
      fc.asyncProperty(kinds, fc.jsonValue(), envelopes, async (kind, value, envelope) => {
        const outcome = await outcomeOf(kind, { json: wrap(value, envelope).json });
        if (typeof outcome === "string")
          expect(outcome).toMatch(/^(APIError|NotFoundError|ResponseValidationError)$/);
        else expect([kind, outcome]).toEqual(["config", undefined]);
      }),
    );
  });
});

describe.each<Kind>(["booking", "listing", "config"])("the read of a %s", (kind) => {
  it.each<[Reply]>([
    [{ status: 204 }],
    [{ text: " \n" }],
    [{ json: null }],
    [{ json: {} }],
    [{ json: { anything: null } }],
    [{ json: { data: { result: {} } } }],
    [{ json: { success: true } }],
    [{ json: { data: null, code: "NOT_FOUND", error: false } }],
  ])("finds no record: %j", async (reply) => {
    expect(await outcomeOf(kind, reply)).toBe(missing(kind));
  });

  it.each<[Reply]>([
    [{ json: { message: "no configuration" } }],
    [{ json: { success: true, ok: true } }],
    [{ json: { message: "maintenance", details: null } }],
    [{ json: { data: null, error: {} } }],
    [{ json: { data: null, config: 5 } }],
    [{ json: { a: { b: { c: null } } } }],
    [{ json: { data: { data: { data: {} } } } }],
    [{ json: "none" }],
    [{ text: "<html>maintenance</html>" }],
  ])("rejects if the answer is unclear: %j", async (reply) => {
    const error = await rejection(ask(kind, reply));
    expect(error).toMatchObject({
      name: "ResponseValidationError",
      valid: [],
      body: reply.json ?? reply.text,
    });
  });
});

it.each([
  [[]],
  [{ data: [] }],
  [{ bookings: [] }],
  [{ results: [], total: 0, next: null }],
  [{ success: true, data: [] }],
  [{ data: { items: [], totalCount: 0 }, meta: { page: 1 } }],
])("an empty list is no record: %j", async (json) => {
  for (const kind of ["booking", "listing"] as const)
    expect(await outcomeOf(kind, { json })).toBe(missing(kind));
  expect(await rejection(ask("config", { json }))).toMatchObject({ name: "ResponseValidationError" });
});

it.each([
  [{ message: "unavailable", data: [] }],
  [{ status: "down", results: [] }],
  [{ code: "A", state: "Request", guests: [] }],
  [{ reference: "A", items: [] }],
  [{ status: "Request", data: [] }],
  [{ errors: [] }],
])("an empty list beside something else does not say that there is no record: %j", async (json) => {
  for (const kind of ["booking", "listing"] as const)
    expect(await outcomeOf(kind, { json })).not.toBe("NotFoundError");
});

describe("two records in one body", () => {
  const read = async (json: unknown) => (await answering({ json })).bookings.get("A");
  const older = { ...booking, status: "Initiated" };

  it.each([
    { before: older, after: booking },
    { after: booking, before: older },
    { data: { old: older, new: booking } },
    { previous: older, current: booking },
    { oldBooking: older, newBooking: booking },
    { data: booking, result: booking },
    { ...booking, data: booking },
    { status: "success", data: { status: booking.status, booking } },
    { data: booking, related: { ...older, bookingCode: "B" } },
    { booking, listing: { listingId: 7, status: "Published" } },
  ])("the newer of a pair, or the requested one, is the record: %j", async (json) => {
    expect(await read(json)).toMatchObject(booking);
  });

  it.each<[unknown, string[]]>([
    [{ one: older, other: booking }, ["one", "other"]],
    [{ data: { booking: older, result: booking } }, ["data.booking", "data.result"]],
    [{ bookingCode: "A", status: "ok", data: booking }, ["", "data"]],
    [{ data: { bookingCode: "a", status: "success", booking } }, ["data", "data.booking"]],
    [{ status: "Cancelled", booking }, ["booking", "status"]],
    [{ data: { status: "Cancelled", booking } }, ["data.booking", "data.status"]],
  ])("are an error with both paths if nobody knows which counts: %j", async (json, paths) => {
    const error = await rejection(read(json));
    expect((error.issues as { path: Path }[]).map(({ path }) => path.join("."))).toEqual(paths);
    for (const path of paths) expect(error.message).toContain(path);
  });

  it.each([{ before: booking, after: null }, { old: booking }])(
    "the older of a pair is never the record: %j",
    async (json) => {
      expect((await rejection(read(json))).name).toBe("ResponseValidationError");
    },
  );

  it("a booking beside a listing is not the listing", async () => {
    const listing = { listingId: 7, status: "Hidden" };
    const client = await answering({ json: { booking: { ...booking, listingId: 7 }, listing } });
    expect(await client.listings.get(7)).toEqual(listing);
  });
});

describe("the requested record", () => {
  it.each([
    ["hx3k9", "HX3K9", true],
    ["\u00a0HX3K9 ", " hx3k9\t", true],
    ["HX3K9", "HX 3K9", false],
    ["HX3K9", "", false],
    ["O", "0", false],
  ])("is compared without letter case and outer white space: %j and %j", async (asked, bookingCode, same) => {
    const json = { data: [{ ...booking, bookingCode }] };
    const outcome = (await answering({ json })).bookings.get(asked);
    if (same) return expect(await outcome).toEqual(json.data[0]);
    const error = await rejection(outcome);
    expect(error).toMatchObject({ name: "ResponseValidationError", body: json });
    expect(error.message).toMatch(/^GET \/v2\/bookings\/.* data\.0\.bookingCode: is not the requested/);
  });

  it("may have its listing id in digits", async () => {
    const json = { listingId: "07", status: "Archived", rooms: [{ beds: 2 }], listingName: null };
    expect(await (await answering({ json })).listings.get("007")).toEqual({ ...json, listingId: 7 });
  });

  it("passes on values of unexpected types, with one warning for each field", async () => {
    const { logger, warnings } = keepingLogger();
    const odd = { ...booking, checkIn: { on: "2026-07-01" }, listingId: "x", checkOut: null };
    const client = await answering({ json: odd }, { logger });
    for (let read = 0; read < 2; read += 1) expect(await client.bookings.get("A")).toEqual(odd);
    expect(warnings).toEqual([expect.stringContaining("booking.checkIn")]);
    const json = { isActive: true, endpoints: { bookings: { url: "https://a.example" } } };
    expect(await (await answering({ json }, { logger })).webhookConfig.get()).toEqual(json);
    expect(warnings.slice(1)).toEqual([expect.stringContaining("endpoints.bookings")]);
  });

  it("may be 10 MiB long, and no longer", async () => {
    const long = "x".repeat(10 * 1024 * 1024);
    const beyond = { json: { ...booking, long } };
    expect(await rejection((await answering(beyond)).bookings.get("A"))).toMatchObject({
      name: "ResponseValidationError",
      issues: [{ path: [], message: expect.stringContaining("longer") }],
    });
    expect((await rejection((await answering(beyond)).request("GET", "/x"))).name).toBe(
      "ResponseValidationError",
    );
    const within = { ...booking, long: long.slice(100) };
    expect(await (await answering({ json: within })).bookings.get("A")).toMatchObject(booking);
    const failing = await answering({ text: long.repeat(2), status: 500 });
    expect(await rejection(failing.bookings.get("A"))).toMatchObject({ status: 500 });
  });
});

describe("a write of the webhook configuration", () => {
  /** Makes each write, and gives its result or error. */
  const writes = async (reply: Reply) => {
    const { webhookConfig } = await answering(reply);
    return Promise.all(
      [
        webhookConfig.create(config),
        webhookConfig.update(config),
        webhookConfig.toggle(true),
        webhookConfig.delete(),
      ].map((call) => call.catch((error) => error)),
    );
  };

  it.each<[Reply]>([
    [{ status: 204 }],
    [{ json: null }],
    [{ json: [] }],
    [{ json: { isActive: "true", endpoints: {} } }],
    [{ json: { status: "saved", code: 0, message: "ok" } }],
    [{ json: { one: config, other: { ...config, isActive: false } } }],
    [{ json: { error: {}, errors: [] } }],
    [{ json: { error: null, Error: false, ERROR: "" } }],
    [{ json: { error_code: 0, errorCode: "OK", result: "saved", Success: 1, failed: false } }],
    [{ json: { data: { id: 7, status: 3, code: 12, state: "active", error: null } } }],
    [{ text: "<html></html>", status: 202 }],
    [{ text: '{"isActive":' }],
  ])("resolves to undefined if the answer shows no configuration: %j", async (reply) => {
    expect(await writes(reply)).toEqual([undefined, undefined, undefined, undefined]);
  });

  it.each<[Reply, shown?: object]>([
    [{ json: config, status: 201, headers: { "content-type": "text/plain" } }],
    [{ json: { success: true, data: { config } } }],
    [{ json: { config, status: "active", code: 1, result: "saved" } }],
    ...[
      { failures: 12, errors: { count: 0 }, error: "No error", status: "failing" },
      { errorCode: 0, errorDescription: "Success" },
    ]
      .map((beside) => ({ ...config, ...beside }))
      .flatMap((shown): [Reply, object][] => [
        [{ json: shown }, shown],
        [{ json: { data: shown } }, shown],
      ]),
    [{ text: `\ufeff${JSON.stringify(config)}` }],
    [{ json: { before: { ...config, isActive: false }, after: config } }],
  ])("resolves to the configuration that the answer shows: %j", async (reply, shown = config) => {
    expect(await writes(reply)).toEqual([shown, shown, shown, shown]);
  });

  it.each([
    [{ success: false, message: "limit reached" }, "limit reached"],
    [{ success: "false" }, 'the body reports a failure: {"success":"false"}'],
    [{ error: { message: "limit reached" } }, "limit reached"],
    [{ errors: [{ code: 7 }] }, 'the body reports a failure: {"errors":[{"code":7}]}'],
    [{ status: "error" }, 'the body reports a failure: {"status":"error"}'],
    [{ ok: false }, 'the body reports a failure: {"ok":false}'],
    [{ code: 500 }, 'the body reports a failure: {"code":500}'],
    [{ statusCode: "503", data: null }, 'the body reports a failure: {"statusCode":"503"}'],
    [{ data: { id: 1 }, error: "limit reached" }, "limit reached"],
    [{ success: false, error: "late", config }, "late"],
    [{ ...config, Success: false }, 'the body reports a failure: {"Success":false}'],
    [{ ...config, error_code: 17 }, 'the body reports a failure: {"error_code":17}'],
    [{ config, result: "error" }, 'the body reports a failure: {"result":"error"}'],
    [{ ...config, data: { error: "limit" } }, 'the body reports a failure: {"data":{"error":"limit"}}'],
    ...[
      { Success: false },
      { SUCCESS: "False" },
      { is_success: 0 },
      { Error: "limit" },
      { error_message: "limit" },
      { ErrorMessage: "limit" },
      { error_code: 17 },
      { ErrorCode: "LIMIT" },
      { err_code: "E1" },
      { result: "error" },
      { Result: "FAILED" },
      { status_code: 500 },
      { Status: "Error" },
      { failed: true },
      { has_errors: true },
      { data: { error: "limit" } },
      { Data: { Errors: [{ code: 7 }] } },
      { result: { Success: false } },
      { response: { data: { error_code: 17 } } },
      { payload: { status: 503 } },
    ].map((json): [object, string] => [json, `the body reports a failure: ${JSON.stringify(json)}`]),
  ])("rejects if a 2xx answer reports a failure: %j", async (json, detail) => {
    for (const error of await writes({ json, status: 201 })) {
      expect(error).toMatchObject({ name: "APIError", status: 201, body: json });
      expect(error.message.split(" was answered with 201: ")[1]).toBe(detail);
    }
  });

  it("finds no configuration: delete resolves, the others reject", async () => {
    for (const reply of [{ json: { code: "404", data: null } }, { status: 410, json: { success: false } }])
      expect(await writes(reply)).toEqual([
        ...Array(3).fill(expect.objectContaining({ name: "NotFoundError", status: reply.status ?? 200 })),
        undefined,
      ]);
  });
});
