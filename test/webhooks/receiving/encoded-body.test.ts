import { EventEmitter } from "node:events";
import { PassThrough, Readable } from "node:stream";
import * as zlib from "node:zlib";
import { afterEach, describe, expect, it, vi } from "vitest";
import { toLambdaHandler } from "../../../src/adapters/lambda.ts";
import { StayhookClient } from "../../../src/client/client.ts";
import { memoryStore } from "../../../src/stores/memory/index.ts";
import { createWebhookHandler } from "../../../src/webhooks/handler.ts";
import { bookingNotification, bytesOf, harness, problemOf } from "./receiver.ts";

const text = JSON.stringify({ ...bookingNotification, note: "Zürich ⛱" });
const bytes = bytesOf(text);

afterEach(() => {
  vi.unstubAllGlobals();
});

const coders: Record<string, (plain: Uint8Array) => Uint8Array> = {
  gzip: zlib.gzipSync,
  "x-gzip": zlib.gzipSync,
  GZIP: zlib.gzipSync,
  deflate: zlib.deflateSync,
  "deflate without a header": zlib.deflateRawSync,
  br: zlib.brotliCompressSync,
  zstd: zlib.zstdCompressSync,
  "gzip, br": (plain) => zlib.brotliCompressSync(zlib.gzipSync(plain)),
  "identity, gzip": zlib.gzipSync,
};
const headersOf = (coding: string) => ({ "Content-Encoding": coding.replace(" without a header", "") });

describe("a body with a content encoding", () => {
  const shapes: Record<string, (encoded: Uint8Array) => object> = {
    bytes: (encoded) => encoded,
    "a Node stream": (encoded) => Readable.from([encoded.slice(0, 20), encoded.slice(20)]),
    "a ReadableStream": (encoded) => new Blob([encoded as Uint8Array<ArrayBuffer>]).stream(),
  };

  it.each(Object.entries(coders))("is decoded: %s", async (coding, encode) => {
    for (const shape of Object.values(shapes)) {
      const encoded = encode(bytes);
      let raw: Uint8Array | undefined;
      const verify = async ({ rawBody }: { rawBody(): Promise<Uint8Array> }) => {
        raw = await rawBody();
        return true;
      };
      const { post, added } = harness({ maxBodyBytes: bytes.length, verify });
      const { result } = await post({ body: shape(encoded), headers: headersOf(coding) });
      expect([result.status, added[0]?.notification]).toEqual([200, text]);
      expect(Buffer.from(raw ?? []).equals(encoded)).toBe(true);
      const small = harness({ maxBodyBytes: bytes.length - 1 });
      const refused = await small.post({ body: shape(encoded), headers: headersOf(coding) });
      expect(refused.result.status).toBe(413);
      expect(small.seen).toMatchObject([{ kind: "refused", reason: "too-large" }]);
    }
  });

  it("is taken as it is where it is JSON already, as behind express.raw()", async () => {
    const { post, added } = harness();
    for (const make of [
      () => text,
      () => bytes,
      () => Readable.from([bytes]),
      () => JSON.parse(text) as object,
    ])
      for (const coding of ["gzip", "UTF-8"])
        expect((await post({ body: make(), headers: { "content-encoding": coding } })).result.status).toBe(
          200,
        );
    expect(added.map(({ notification }) => notification)).toEqual([text]);
  });

  it("in base64, as from Lambda", async () => {
    const client = new StayhookClient({ baseUrl: "http://127.0.0.1:1", accessToken: "token" });
    const store = memoryStore();
    const webhooks = createWebhookHandler({ client, store, verify: false, autoStart: false, on: {} });
    const answer = await toLambdaHandler(webhooks)({
      httpMethod: "POST",
      headers: { "content-encoding": "gzip" },
      body: Buffer.from(zlib.gzipSync(bytes)).toString("base64"),
      isBase64Encoded: true,
    });
    expect(answer.statusCode).toBe(200);
    expect((await store.get(bookingNotification.eventId))?.notification).toBe(text);
    const request = new Request("http://localhost/", {
      method: "POST",
      headers: { "content-encoding": "br" },
      body: zlib.brotliCompressSync(bytes),
    });
    expect((await webhooks.fetch(request)).status).toBe(200);
    await webhooks.close();
  });

  it.each(["gzip", "br", "zstd", "deflate", "gzip, gzip"])(
    "is not read on where it is a bomb: %s",
    async (coding) => {
      let counted = 0;
      const Original = DecompressionStream;
      class Counting {
        readonly readable: ReadableStream;
        readonly writable: WritableStream;
        constructor(format: CompressionFormat) {
          const { readable, writable } = new Original(format);
          this.writable = writable;
          this.readable = readable.pipeThrough(
            new TransformStream({
              transform(chunk: Uint8Array, controller) {
                counted += chunk.length;
                controller.enqueue(chunk);
              },
            }),
          );
        }
      }
      vi.stubGlobal("DecompressionStream", Counting);
      const twice = (plain: Uint8Array) => zlib.gzipSync(zlib.gzipSync(plain));
      const bomb = (coders[coding] ?? twice)(Buffer.alloc(30_000_000));
      const { post, seen } = harness({ maxBodyBytes: 65_536 });
      const { result } = await post({ body: bomb, headers: headersOf(coding) });
      expect([result.status, seen]).toMatchObject([413, [{ reason: "too-large" }]]);
      expect(counted).toBeLessThan(400_000);
    },
  );

  it.each(["compress", "constructor", "gzip, foo", "gzip,gzip,gzip,gzip", 'x"<y>'])(
    "is answered 415 where nobody knows the encoding: %s",
    async (coding) => {
      const { post, seen, log, added } = harness();
      const { result } = await post({ body: Readable.from([bytes]), headers: headersOf(coding) });
      expect(result).toMatchObject({ status: 415, headers: { "accept-encoding": "gzip, deflate, br" } });
      const [issue] = problemOf(result.body).errors ?? [];
      expect(issue?.path).toEqual(["content-encoding"]);
      expect(issue?.message).toContain(
        coding.includes("gzip, foo") ? "foo" : coding.replace(/["<>]/g, "").split(",")[0],
      );
      expect(seen).toEqual([{ kind: "refused", status: 415, reason: "encoding", topic: null }]);
      expect(log[0]?.message).toMatch(/refused a request \(415\): content-encoding: .+ is not supported/);
      expect(added).toEqual([]);
    },
  );

  it("is decoded by Node's zlib where the runtime's DecompressionStream does not know it, else 415", async () => {
    vi.resetModules();
    vi.stubGlobal("DecompressionStream", undefined);
    const fresh = async () => (await import("./receiver.ts")).harness();
    for (const [coding, encode] of Object.entries(coders)) {
      const { post } = await fresh();
      expect((await post({ body: encode(bytes), headers: headersOf(coding) })).result.status, coding).toBe(
        200,
      );
    }
    const { post } = await fresh();
    const bomb = zlib.brotliCompressSync(Buffer.alloc(10_000_000));
    expect((await post({ body: bomb, headers: { "content-encoding": "br" } })).result.status).toBe(413);
    const broken = await post({ body: bytesOf("no gzip"), headers: { "content-encoding": "gzip" } });
    expect(broken.result.status).toBe(400);
    vi.stubGlobal("process", { ...process, getBuiltinModule: undefined });
    for (const coding of ["br", "gzip", "deflate"]) {
      const { result } = await post({ body: coders[coding]?.(bytes) ?? "", headers: headersOf(coding) });
      expect([result.status, result.body]).toEqual([415, expect.stringContaining(coding)]);
    }
  });

  it("is invalid where it does not have that encoding, and the observation has the text so far", async () => {
    const long = JSON.stringify({
      ...bookingNotification,
      note: Array.from({ length: 9000 }, Math.random).join(),
    });
    const cut = zlib.gzipSync(long).subarray(0, 40_000);
    const { post, seen } = harness({ maxBodyBytes: 500_000 });
    const { result } = await post({ body: cut, headers: { "content-encoding": "gzip" } });
    expect(problemOf(result.body).errors?.[0]?.message).toMatch(/is neither JSON nor has the encoding/);
    expect(seen).toMatchObject([
      { kind: "invalid", body: expect.stringContaining(bookingNotification.eventId) },
    ]);
    expect((await post({ body: bytesOf("{"), headers: { "content-encoding": "br" } })).result.status).toBe(
      400,
    );
    for (const empty of ["", new Uint8Array()]) {
      const refused = await post({ body: empty, headers: { "content-encoding": "gzip" } });
      expect(problemOf(refused.result.body).errors?.[0]?.message).toBe("is empty");
    }
  });
});

describe("a charset", () => {
  const type = (charset: string) => ({ "content-type": `application/json; charset=${charset}` });

  it.each(["iso-8859-1", "windows-1252", '"UTF-16"', "nonsense", "us-ascii"])(
    "counts only where the body is not JSON as UTF-8: %s",
    async (charset) => {
      const { post, added, seen } = harness();
      expect((await post({ body: bytes, headers: type(charset) })).result.status).toBe(200);
      expect(added[0]?.notification).toBe(text);
      for (const body of [Buffer.from(text, "latin1"), Buffer.from(text, "utf16le")]) {
        const { result } = await post({ body, headers: type(charset) });
        expect([result.status, result.body]).toEqual([
          415,
          expect.stringContaining(charset.replaceAll('"', "")),
        ]);
      }
      expect(seen.slice(1)).toMatchObject([{ reason: "encoding" }, { reason: "encoding" }]);
      // A text has been decoded by somebody, an empty body has no charset, and the last one is JSON.
      for (const body of ["{", "", Buffer.from(""), Buffer.from("[]")])
        expect((await post({ body, headers: type(charset) })).result.status).toBe(400);
    },
  );

  it("of UTF-8 with other bytes is 400", async () => {
    const body = Buffer.from(text, "latin1");
    for (const headers of [type("utf-8"), type("UTF8"), {}])
      expect((await harness().post({ body, headers })).result.status).toBe(400);
  });
});

describe("JSON that a form parser has read", () => {
  const form = { "content-type": "application/x-www-form-urlencoded" };
  it.each<[string, object, string]>([
    ["one key", { [text]: "" }, text],
    ["URLSearchParams", new URLSearchParams([[text, ""]]), text],
    ["split at = and &", { '{"a': 'b"', c: 'd",', ...{} }, ""],
  ])("is taken: %s", async (_, body, expected) => {
    const { post, added } = harness();
    const { result } = await post({ body, headers: form });
    expect([result.status, added[0]?.notification ?? ""]).toEqual([expected === "" ? 400 : 200, expected]);
  });

  it("keeps = and & of its texts, and the offset of a time", async () => {
    const odd = JSON.stringify({
      ...bookingNotification,
      timestamp: "2026-03-01T10:00:00+01:00",
      note: "a=b&c&d=e=f",
    });
    const { post, added } = harness();
    const body = Object.fromEntries(new URLSearchParams(odd));
    expect((await post({ body, headers: form })).result.status).toBe(200);
    expect(JSON.parse(added[0]?.notification ?? "")).toEqual(JSON.parse(odd));
  });

  it("names the parser where it cannot be restored", async () => {
    for (const body of [{ '{"tags":': { '"x"': "}" } }, { payload: text }, { eventId: "12" }]) {
      const { post } = harness();
      const { result } = await post({ body, headers: form });
      expect(result.status).toBe(400);
      expect(problemOf(result.body).errors?.[0]?.message).toMatch(/parsed as a form.*express\.urlencoded/);
    }
  });
});

describe("a Node stream that somebody else", () => {
  const states: Record<string, () => object> = {
    paused: () => Readable.from([bytes]).pause(),
    "paused while it flowed": () => {
      const stream = new PassThrough();
      stream.resume();
      stream.pause();
      stream.end(bytes);
      return stream;
    },
    "listens to with `readable`": () => Readable.from([bytes]).on("readable", () => {}),
    "listens to with `readable`, and paused": () =>
      Readable.from([bytes])
        .on("readable", () => {})
        .pause(),
    "reads with `readable`": () => {
      const stream = new PassThrough();
      stream.on("readable", () => stream.read());
      setTimeout(() => stream.write(bytes.slice(0, 9)), 5);
      setTimeout(() => stream.end(bytes.slice(9)), 15);
      return stream;
    },
    "paused, of the old kind": () => {
      const stream = Object.assign(new EventEmitter(), {
        pause() {},
        resume() {
          setTimeout(() => stream.emit("data", bytes) && stream.emit("end"), 5);
        },
      });
      return stream;
    },
    wrapped: () => new Readable().wrap(Readable.from([bytes])),
    "has piped into another": () => Readable.from([bytes]).pipe(new PassThrough()).pause(),
  };

  it.each(Object.entries(states))("%s flows", async (_, make) => {
    const { post, added } = harness({ replyWithin: 300 });
    expect((await post({ body: make() })).result.status).toBe(200);
    expect(added[0]?.notification).toBe(text);
  });

  it("listens to with `readable` is not read on where it is too large", async () => {
    let pulled = 0;
    const body = new Readable({
      highWaterMark: 1,
      read() {
        pulled++;
        this.push(Buffer.alloc(400));
      },
    }).on("readable", () => {});
    expect((await harness().post({ body })).result.status).toBe(413);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(pulled).toBeLessThan(9);
  });
});
