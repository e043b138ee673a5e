import { hostileBody, plain } from "./hostile-bodies.ts";
import type { Random } from "./random.ts";
import type { Step } from "./raw-socket.ts";
import { chunked, chunkedHead, crlf, mutate, pieces, request } from "./wire.ts";

/** The steps of an attack on one connection, and the answers that it may get. */
export interface Attack {
  readonly name: string;
  readonly steps: readonly Step[];
  /** The number of answers to wait for. */
  readonly expect?: number;
  /** The statuses in order, if they are certain. */
  readonly statuses?: readonly number[];
  readonly patience?: number;
  readonly head?: boolean;
}

type Make = (random: Random) => Omit<Attack, "name">;
const ok = (random: Random): Buffer => request(plain(random));
/** Makes an attack of one write. */
const once = (write: Uint8Array | string, more: Partial<Attack> = {}): Omit<Attack, "name"> => ({
  steps: [{ write }],
  ...more,
});
const statuses = (...list: number[]): Partial<Attack> => ({ statuses: list, expect: list.length });

const bodies: Record<string, Make> = {
  "a body": (random) => once(request(hostileBody(random))),
  "a body in chunks": (random) => once(Buffer.concat([chunkedHead(), chunked(hostileBody(random), random)])),
  "a body in pieces": (random) => ({ steps: pieces(request(hostileBody(random)), random) }),
  "a body, compressed or said to be": (random) =>
    once(request(hostileBody(random), { headers: ["host: x", "content-encoding: gzip"] })),
  "a content type": (random) =>
    once(
      request(plain(random), {
        headers: [
          "host: x",
          `content-type: ${random.pick(["text/plain", "multipart/form-data", "application/json; charset=utf-16", "\xff", ""])}`,
        ],
      }),
      statuses(200),
    ),
};

const framing: Record<string, Make> = {
  "a length that is none": (random) =>
    once(
      request(plain(random), {
        length: random.pick(["-1", "+5", "0x10", "1e2", "", "5,5", "5 5", "9".repeat(30), "٣"]),
      }),
    ),
  "two lengths": (random) =>
    once(request(plain(random), { headers: ["host: x", `content-length: ${random.below(300)}`] })),
  "a length too long": (random) => once(request(plain(random), { length: 100_000 }), statuses(413)),
  "a length a little too long": (random) => once(request(plain(random), { length: 500 }), statuses(408)),
  "a length too short": (random) => once(request(plain(random), { length: random.below(100) })),
  "both TE and CL": (random) =>
    once(
      Buffer.concat([
        chunkedHead(`content-length: ${random.below(200)}`),
        chunked(Buffer.from(plain(random)), random),
      ]),
    ),
  "a strange transfer coding": (random) =>
    once(
      request(plain(random), {
        headers: [
          "host: x",
          `transfer-encoding: ${random.pick(["identity", "gzip", "gzip, chunked", "chunked, gzip", "chunked, chunked", "xchunked", " chunked", "chunked;a=b"])}`,
        ],
        length: random.pick([null, 5]),
      }),
    ),
  "a bad chunk": (random) =>
    once(
      Buffer.concat([
        chunkedHead(),
        Buffer.from(
          random.pick([
            "-1\r\nx\r\n",
            "fffffffffffffffff\r\n",
            "zz\r\n",
            "\r\n",
            "0x5\r\nhello\r\n",
            "5\r\nhelloX\r\n0\r\n\r\n",
            "5\nhello\n0\n\n",
            " 5\r\nhello\r\n0\r\n\r\n",
            "5\r\nhello0\r\n\r\n",
          ]),
        ),
      ]),
    ),
  "a chunk said to be huge": () =>
    once(Buffer.concat([chunkedHead(), Buffer.from("7fffffff\r\n{")]), statuses(408)),
  "chunks beyond the limit": (random) =>
    once(Buffer.concat([chunkedHead(), chunked(Buffer.alloc(200_000, 32), random)]), statuses(413)),
  "chunks with extensions": (random) =>
    once(
      Buffer.concat([
        chunkedHead(),
        chunked(Buffer.from(plain(random)), random, `;a="${"b".repeat(random.below(20_000))}"`),
      ]),
    ),
  "chunks with trailers": (random) => {
    const body = chunked(Buffer.from(plain(random)), random);
    const trailer = Buffer.from(
      `content-length: 3${crlf}x-y: ${"z".repeat(random.below(20_000))}${crlf}${crlf}`,
    );
    return once(Buffer.concat([chunkedHead("trailer: x-y"), body.subarray(0, -2), trailer]));
  },
};

const lines: Record<string, Make> = {
  "a method": (random) => {
    const method = random.pick([
      "GET",
      "PUT",
      "DELETE",
      "PATCH",
      "OPTIONS",
      "PROPFIND",
      "PURGE",
      "M-SEARCH",
      "QUERY",
    ]);
    return once(request(plain(random), { line: `${method} / HTTP/1.1` }), statuses(405));
  },
  HEAD: (random) =>
    once(request(random.pick(["", "x"]), { line: "HEAD / HTTP/1.1" }), { ...statuses(405), head: true }),
  "what is no method": (random) =>
    once(
      request(plain(random), {
        line: `${random.pick(["post", "Post", "POSTX", "", "\x00", "GET GET", "CONNECT"])} / HTTP/1.1`,
      }),
    ),
  "a version": (random) =>
    once(
      request(plain(random), {
        line: `POST / HTTP/${random.pick(["0.9", "1.2", "2.0", "3", "1.1.1", "", "x"])}`,
      }),
    ),
  "HTTP/1.0": (random) =>
    once(request(plain(random), { line: "POST / HTTP/1.0", headers: [] }), statuses(200)),
  "HTTP/1.0, kept alive": (random) =>
    once(
      Buffer.concat(
        [1, 2].map(() =>
          request(plain(random), { line: "POST / HTTP/1.0", headers: ["connection: keep-alive"] }),
        ),
      ),
      statuses(200, 200),
    ),
  "no host": (random) => once(request(plain(random), { headers: [] }), statuses(400)),
  "a wrong host": (random) =>
    once(
      request(plain(random), {
        headers: [
          `host: ${random.pick(["", "a b", "evil.example", "[::1", ":0", "x".repeat(5_000), "\xff"])}`,
        ],
      }),
      statuses(200),
    ),
  "two hosts": (random) => once(request(plain(random), { headers: ["host: x", "host: y"] })),
  "a URL": (random) =>
    once(
      request(plain(random), {
        line: `POST ${random.pick(["http://evil.example/hooks", "https://u:p@[::1]:99999/", "//", "*", "/%", "/%zz?%", `/${"a/".repeat(5_000)}`, "/\\..\\..", "/?#?#", "/\x80\xff", "?", "http://"])} HTTP/1.1`,
      }),
    ),
  "a header too many": (random) =>
    once(
      request(plain(random), {
        headers: ["host: x", ...Array.from({ length: 3_000 }, (_, at) => `x-${at}: y`)],
      }),
      statuses(431),
    ),
  "a header too large": (random) =>
    once(request(plain(random), { headers: ["host: x", `x: ${"y".repeat(100_000)}`] }), statuses(431)),
  "a header that is none": (random) =>
    once(
      request(plain(random), {
        headers: [
          "host: x",
          random.pick([
            "x : y",
            ": y",
            "x",
            " folded: y",
            "x: a\x00b",
            "x: a\rb",
            "x: a\nb: c",
            "\xffx: y",
            "__proto__: y",
            "constructor: y",
            "content-length : 3",
          ]),
        ],
      }),
    ),
  "an expectation": (random) =>
    once(
      request(plain(random), {
        headers: ["host: x", `expect: ${random.pick(["100-continue", "200-ok", ""])}`],
      }),
    ),
  "an upgrade": (random) =>
    once(
      request(plain(random), {
        headers: ["host: x", "connection: upgrade", `upgrade: ${random.pick(["websocket", "h2c", "x"])}`],
      }),
      statuses(200),
    ),
  "HTTP/2": () => once("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
  TLS: (random) => once(Buffer.concat([Buffer.from([0x16, 3, 1, 2, 0, 1]), random.bytes(500)])),
  noise: (random) => once(random.bytes(1 + random.below(2_000)), { patience: 500 }),
};

const connectionsOver: Record<string, Make> = {
  "a valid one behind an invalid one": (random) =>
    once(Buffer.concat([request("{"), ok(random), request("[]"), ok(random)]), statuses(400, 200, 400, 200)),
  "one behind a GET": (random) =>
    once(
      Buffer.concat([request("", { line: "GET / HTTP/1.1", length: null }), ok(random)]),
      statuses(405, 200),
    ),
  "many at once": (random) =>
    once(
      Buffer.concat(Array.from({ length: 20 }, () => ok(random))),
      statuses(...Array<number>(20).fill(200)),
    ),
  "the same one many times": (random) => {
    const same = ok(random);
    return once(
      Buffer.concat(Array.from({ length: 20 }, () => same)),
      statuses(...Array<number>(20).fill(200)),
    );
  },
  "one behind what is no HTTP": (random) =>
    once(Buffer.concat([ok(random), Buffer.from("\0\0\0\r\n\r\n"), ok(random)])),
  "one behind a body too large": (random) =>
    once(Buffer.concat([request(Buffer.alloc(70_000, 32)), ok(random)]), { expect: 1 }),
  "one after another, errors between": (random) => ({
    steps: [
      { write: request("nonsense") },
      { answers: 1 },
      { write: request("", { line: "PUT / HTTP/1.1" }) },
      { answers: 2 },
      { write: ok(random) },
    ],
    ...statuses(400, 405, 200),
  }),
  "one that leaves early": (random) => {
    const bytes = random.oneIn(2)
      ? ok(random)
      : Buffer.concat([chunkedHead(), chunked(Buffer.from(plain(random)), random)]);
    const leave: Step = random.oneIn(2) ? { reset: true } : { end: true };
    const head: Step[] = [
      { write: bytes.subarray(0, random.below(bytes.length + 1)) },
      { wait: random.below(4) },
      leave,
    ];
    return { steps: head, expect: "reset" in leave ? 0 : 1, patience: 600 };
  },
  "one that leaves with more announced than its whole JSON": (random) => {
    const bytes = random.oneIn(2)
      ? request(plain(random), { length: 500 })
      : Buffer.concat([chunkedHead(), chunked(Buffer.from(plain(random)), random).subarray(0, -5)]);
    const leave: Step = random.oneIn(2) ? { reset: true } : { end: true };
    return {
      steps: [{ write: bytes }, { wait: 20 }, leave],
      expect: "reset" in leave ? 0 : 1,
      patience: 600,
    };
  },
  "one that leaves when it has sent all": (random) => ({
    steps: [{ write: ok(random) }, { reset: true }],
    expect: 0,
  }),
  "one that stalls": (random) => {
    const bytes = ok(random);
    return { steps: [{ write: bytes.subarray(0, bytes.length - 1 - random.below(50)) }], ...statuses(408) };
  },
  "one that stalls in its headers": (random) => ({
    steps: [{ write: ok(random).subarray(0, 3 + random.below(30)) }],
    ...statuses(408),
  }),
  "one that drips": (random) => {
    const bytes = ok(random);
    const slow = Array.from(bytes.subarray(bytes.length - 12), (byte): Step[] => [
      { write: Uint8Array.of(byte) },
      { wait: 10 },
    ]);
    return { steps: [{ write: bytes.subarray(0, bytes.length - 12) }, ...slow.flat()], patience: 5_000 };
  },
};

const mutations: Record<string, Make> = {
  "a valid one, mutated": (random) => once(mutate(ok(random), random), { patience: 700 }),
  "a valid one's body, mutated": (random) => once(request(mutate(Buffer.from(plain(random)), random))),
  "a valid one in chunks, mutated": (random) =>
    once(mutate(Buffer.concat([chunkedHead(), chunked(Buffer.from(plain(random)), random)]), random), {
      patience: 700,
    }),
};

const makers = { ...bodies, ...framing, ...lines, ...connectionsOver, ...mutations };
const often = [...Object.entries(bodies).slice(0, 4), ...Object.entries(mutations)];

/** Makes every kind of attack once. After that, it repeats the kinds that found the most. */
export function attacks(random: Random, count: number): Attack[] {
  const each = Object.entries(makers);
  return Array.from({ length: count }, (_, index) => {
    const [name, make] = each[index] ?? (random.oneIn(3) ? random.pick(each) : random.pick(often));
    return { name, ...make(random) };
  });
}
