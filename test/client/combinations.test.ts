import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { StayhookClient } from "../../src/client/client.ts";
import { stay } from "../../src/models/dates.ts";
import { seedOf } from "../system/random.ts";
import {
  beside,
  envelopes,
  identities,
  type Kind,
  kinds,
  layers,
  type Path,
  recordOf,
  records,
  wrap,
} from "./answer-forms.ts";
import { accessToken, type Platform, platformUntilEnd, rejection } from "./support.ts";

// The platform's bodies are not documented. The client must return the same record for every form of the body. If the
// body has no valid record, the client must say that there is none, or throw an error with the path in the body.

const seed = seedOf("COMBINATIONS");
const numRuns = 300;

let answer: { status: number; text: string };
let server: Platform;
beforeAll(async () => {
  server = await platformUntilEnd(() => answer);
});

function ask(kind: Kind): Promise<unknown> {
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const client = new StayhookClient({ baseUrl: server.url, accessToken, logger, maxRetries: 0 });
  if (kind === "booking") return client.bookings.get("HX3K9");
  return kind === "listing" ? client.listings.get(7) : client.webhookConfig.get();
}

const check = <T>(property: fc.IAsyncProperty<T>) => fc.assert(property, { seed, numRuns });
const send = (json: unknown, status = 200): void => {
  answer = { status, text: JSON.stringify(json) };
};

describe(`whatever the form of the answer (seed ${seed})`, { timeout: 60_000 }, () => {
  it("the client gives the same record", async () => {
    await check(
      fc.asyncProperty(records, envelopes, async (record, envelope) => {
        const { sent, given } = recordOf(record);
        send(wrap(sent, envelope).json);
        const read = await ask(record.kind);
        expect(read).toEqual(given);
        if (record.kind === "booking" && record.dates[0] && record.dates[0] !== "soon")
          expect(stay(read as object)).toEqual({ checkIn: "2026-07-01", checkOut: "2026-07-04", nights: 3 });
      }),
    );
  });

  it("another record, or a broken one, is an error that names the path", async () => {
    const flaws = fc.constantFrom(
      "other",
      "no identity",
      "bad identity",
      "no status",
      "bad status",
      "text",
      "two",
    );
    await check(
      fc.asyncProperty(records, envelopes, flaws, async (record, envelope, flaw) => {
        const { kind } = record;
        const { sent } = recordOf({ ...record, further: [] });
        const identity = identities[kind];
        const second = kind === "config" ? "endpoints" : "status";
        const field = flaw.endsWith("identity") || flaw === "other" ? identity : second;
        let flawed: unknown = { ...sent, [field]: kind === "booking" ? "HX3K8" : 8 };
        if (flaw.startsWith("no "))
          flawed = Object.fromEntries(Object.entries(sent).filter(([name]) => name !== field));
        if (flaw.startsWith("bad ")) flawed = { ...sent, [field]: [5] };
        if (flaw === "text") flawed = "maintenance";
        // The body does not tell which of the two records was requested.
        if (flaw === "two") flawed = [sent, sent];
        const { json, path } = wrap(flawed, envelope);
        send(json);
        const error = await rejection(ask(kind));
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
        send(wrap(recordOf({ ...record, further: [] }).sent, { wrappers, arrayAt: undefined }).json);
        expect(await rejection(ask(record.kind))).toMatchObject({ name: "ResponseValidationError" });
      }),
    );
  });

  it("a missing record and an outage give different errors", async () => {
    const empty = fc.constantFrom<unknown>(null, {});
    const troubles = fc.constantFrom<[string, unknown]>(
      ["success", false],
      ["error", "database down"],
      ["error", { code: 7 }],
      ["code", 500],
      ["code", "ERR"],
      ["status", "failed"],
      ["status", 503],
      ["statusCode", "502"],
      ["errorCode", "error.timeout"],
      ["message", "Error: timeout"],
      ["message", { text: "timeout" }],
    );
    const known = fc.constantFrom("data", "booking", "listing", "config", "result");
    await check(
      fc.asyncProperty(
        kinds,
        empty,
        known,
        beside,
        fc.option(troubles, { nil: undefined }),
        async (...given) => {
          const [kind, payload, name, fields, trouble] = given;
          send({
            ...Object.fromEntries(fields),
            [name]: payload,
            ...(trouble && { [trouble[0]]: trouble[1] }),
          });
          const outcome = await ask(kind).then(
            (data) => data,
            (error) => error.name,
          );
          const none = kind === "config" ? undefined : "NotFoundError";
          if (trouble) expect(outcome).toMatch(/^(APIError|ResponseValidationError)$/);
          else expect(outcome).toBe(none);
        },
      ),
    );
  });

  it("404 and 410 mean that there is none, in the status line and in the envelope", async () => {
    const codes = fc.constantFrom(404, 410);
    const fields = fc.subarray([
      ["error", "x"],
      ["success", false],
      ["message", "Error"],
      ["data", { a: 1 }],
    ] as [string, unknown][]);
    await check(
      fc.asyncProperty(
        kinds,
        codes,
        fc.constantFrom("code", "status", "line"),
        fields,
        async (kind, code, where, rest) => {
          const body = Object.fromEntries(rest);
          if (where === "line") send(body, code);
          else send({ ...body, [where]: code });
          const outcome = ask(kind);
          if (kind === "config") expect(await outcome).toBeUndefined();
          else expect(await rejection(outcome)).toMatchObject({ name: "NotFoundError" });
        },
      ),
    );
  });

  it("any other JSON is an error of ours, or a record with the identity that was asked for", async () => {
    await check(
      fc.asyncProperty(kinds, fc.jsonValue(), envelopes, async (kind, value, envelope) => {
        send(wrap(value, envelope).json);
        const outcome = await ask(kind).then(
          (data) => data,
          (error) => error.name as string,
        );
        if (typeof outcome === "string")
          expect(outcome).toMatch(/^(APIError|NotFoundError|ResponseValidationError)$/);
        else expect([kind, outcome]).toEqual(["config", undefined]);
      }),
    );
  });
});
