import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { parseBody } from "../../src/webhooks/receiving/parse.ts";
import type { Random } from "./random.ts";

/** The bytes that a client sends on one connection. */
export interface Attack {
  readonly bytes: Buffer;
  /** The statuses of the answers in order, if they are certain. */
  readonly statuses?: readonly number[];
  /** The bodies that get these answers. */
  readonly bodies?: readonly Buffer[];
  /** How the client leaves after the bytes. Without it, the client waits for answers. */
  readonly leaves?: "end" | "reset";
}

type Bytes = Uint8Array | string;

const LIMIT = 16_384;
const crlf = "\r\n";
const bytesOf = (...parts: Bytes[]): Buffer =>
  Buffer.concat(parts.map((part) => Buffer.from(part as string)));

/** Values as JSON text. Some of them have forms that no serializer writes. */
const values = {
  timestamp: ['"2026-05-01T12:00:00Z"', '"2026-02-29T12:00:00Z"', `"${"2".repeat(2_000)}"`, "1e999", "null"],
  bookingCode: [
    ...[
      '"HX-1"',
      '"HX-2"',
      '"a/b?c#d%2e"',
      '"\\ud83d\\ude00"',
      '"__proto__"',
      "null",
      "5",
      "{}",
      '".."',
      '""',
    ],
    ...['"\\ud800"', '"a\\u0000b"', `"${"x".repeat(257)}"`, `"${"x".repeat(2_000)}"`],
  ],
  listingId: ["null", "7", '"7"', "-1", "1.5", "1e3", "1e999", "9".repeat(400), '""', "[1]", '{"valueOf":1}'],
};
const extras = [
  '"__proto__":{"eventId":"x","polluted":true}',
  '"constructor":{"prototype":{"polluted":true}}',
  '"toString":null,"toJSON":"x","then":{"on":1},"pause":"y","getReader":"z"',
  `"deep":${"[".repeat(4_000)}${"]".repeat(4_000)}`,
  '"surrogate":"\\ud800","\\udfff":"\\u0000"',
  '"eventId":"not an id"',
  '"bookingCode":null,"bookingCode":"HX-LAST"',
  `"many":{${Array.from({ length: 500 }, (_, index) => `"k${index}":0`).join()}}`,
  `"text":"${"é".repeat(1_000)}"`,
];

const uuid = (random: Random) =>
  random
    .bytes(16)
    .toString("hex")
    .replace(/(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");

function notification(random: Random): string {
  const members = Object.entries(values).map(([name, from]) => `"${name}":${random.pick(from)}`);
  members.push(`"eventId":"${uuid(random)}${random.oneIn(20) ? "0" : ""}"`);
  while (random.oneIn(2)) members.splice(random.below(members.length + 1), 0, random.pick(extras));
  return `{${members.join(random.pick([",", " ,\r\n"]))}}`;
}

/** Makes a valid notification. */
const plain = (random: Random) => bytesOf(`{"eventId":"${uuid(random)}","bookingCode":"HX-1"}`);

const padded = (text: string, length: number) =>
  text + " ".repeat(Math.max(0, length - Buffer.byteLength(text)));
const spoils: readonly ((text: string, random: Random) => Bytes)[] = [
  ...Array<(text: string) => string>(8).fill((text) => text),
  (text) => `\ufeff${text}`,
  (text) => Buffer.from(text, "utf16le"),
  (text) => `[${text}]`,
  (text) => `${text}\0`,
  (text) => gzipSync(text),
  (text, random) => text.slice(0, random.below(text.length)),
  (text, random) => mutate(bytesOf(text), random),
  (text) => text.replace("HX", Buffer.from([0xed, 0xa0, 0x80]).toString("latin1")),
  (text) => padded(text, LIMIT),
  (text) => padded(text, LIMIT + 1),
  () => "[".repeat(LIMIT),
  (_, random) => random.bytes(random.below(2_000)),
  () => "",
];
const hostileBody = (random: Random) => bytesOf(random.pick(spoils)(notification(random), random));

/** Damages bytes as a network may. */
function mutate(bytes: Buffer, random: Random): Buffer {
  const at = random.below(bytes.length);
  const part = bytes.subarray(at, at + 1 + random.below(8));
  const texts = [crlf, "\n", "\0", ":", "-1", "0", '"', "{", ",", "\\u", "\ufeff"];
  const damaged = [random.bytes(part.length), "", bytesOf(part, part), random.pick(texts)];
  const mutated = bytesOf(bytes.subarray(0, at), random.pick(damaged), bytes.subarray(at + part.length));
  return random.oneIn(2) || mutated.length === 0 ? mutated : mutate(mutated, random);
}

const head = (lines: readonly string[], line = "POST /hooks HTTP/1.1") =>
  Buffer.from([line, ...lines, "", ""].join(crlf), "latin1");
const post = (
  body: Buffer,
  { line = "POST /hooks HTTP/1.1", headers = ["host: x"], length = body.length } = {},
) => bytesOf(head([...headers, `content-length: ${length}`], line), body);

function chunked(body: Buffer, random: Random, headers: readonly string[] = []): Buffer {
  const parts: Bytes[] = [head(["host: x", "transfer-encoding: chunked", ...headers])];
  for (let at = 0; at < body.length; ) {
    const chunk = body.subarray(at, at + 1 + random.below(body.length));
    parts.push(chunk.length.toString(16), random.pick(["", ';a="b"']), crlf, chunk, crlf);
    at += chunk.length;
  }
  return bytesOf(...parts, `0${crlf}${crlf}`);
}

function statusOf(body: Buffer): number {
  if (body.length > LIMIT) return 413;
  return parseBody(body, undefined).ok ? 200 : 400;
}

/** Makes an attack whose bodies arrive whole. */
const whole = (bytes: Buffer, ...bodies: Buffer[]): Attack => ({
  bytes,
  bodies,
  statuses: bodies.map(statusOf),
});
const certain = (bytes: Buffer, ...statuses: number[]): Attack => ({ bytes, statuses });

const bodies: Record<string, (body: Buffer, random: Random) => Attack> = {
  "a body": (body) => whole(post(body), body),
  "a body in chunks": (body, random) => whole(chunked(body, random), body),
  "a body that is said to be gzip": (body) => {
    // Some bodies are gzip, and others are JSON that the header is wrong about. Their decoded content decides.
    const { statuses: _, ...attack } = whole(
      post(body, { headers: ["host: x", "content-encoding: gzip"] }),
      body,
    );
    return attack;
  },
};

const requests: Record<string, (body: Buffer, random: Random) => Attack> = {
  mutated: (body, random) => ({ bytes: mutate(post(body), random) }),
  "chunks, mutated": (body, random) => ({ bytes: mutate(chunked(body, random), random) }),
  "a valid one, mutated in its body": (body, random) => {
    const mutated = mutate(body, random);
    return whole(post(mutated), mutated);
  },
  "a length far too long": (body) => certain(post(body, { length: 100_000 }), 413),
  "a length too long": (body) => certain(post(body, { length: 500 }), 408),
  "a length too short": (body, random) => ({ bytes: post(body, { length: random.below(body.length) }) }),
  "a chunk said to be huge": () =>
    certain(bytesOf(head(["host: x", "transfer-encoding: chunked"]), "7fffffff\r\n{"), 408),
  "a strange header": (body, random) => {
    const lines = [
      "content-length: 5",
      "transfer-encoding: chunked",
      "transfer-encoding: gzip",
      "x : y",
      ": y",
      " folded",
    ];
    const others = [
      "x: a\x00b",
      "x: a\rb",
      "\xffx: y",
      "__proto__: y",
      "host: y",
      "expect: 100-continue",
      "x",
    ];
    return { bytes: post(body, { headers: ["host: x", random.pick([...lines, ...others])] }) };
  },
  "a strange line": (body, random) => {
    const urls = [
      "//",
      "*",
      "/%",
      `/${"a/".repeat(5_000)}`,
      "https://u:p@[::1]:99999/",
      "/\\..",
      "?",
      "http://",
      "/\x80\xff",
    ];
    const lines = ["post / HTTP/1.1", "POST / HTTP/2.0", "POST /", "CONNECT / HTTP/1.1", "PRI * HTTP/2.0"];
    return {
      bytes: post(body, { line: random.pick([...lines, ...urls.map((url) => `POST ${url} HTTP/1.1`)]) }),
    };
  },
  "another method": (body, random) =>
    certain(
      post(body, { line: `${random.pick(["GET", "PUT", "OPTIONS", "PURGE", "QUERY"])} / HTTP/1.1` }),
      405,
    ),
  "no host": (body) => certain(post(body, { headers: [] }), 400),
  "too many headers": (body) => certain(post(body, { headers: Array<string>(3_000).fill("x: y") }), 431),
  "HTTP/1.0": (body) => certain(post(body, { line: "POST / HTTP/1.0", headers: [] }), 200),
  noise: (_, random) => ({ bytes: random.bytes(1 + random.below(2_000)) }),
  "a valid one behind invalid ones": (body) => {
    const all = [bytesOf("{"), body, bytesOf("[]"), body, body];
    return whole(bytesOf(...all.map((each) => post(each))), ...all);
  },
  "one behind a GET": (body) => certain(bytesOf(head(["host: x"], "GET / HTTP/1.1"), post(body)), 405, 200),
  "one behind a body too large": (body) => ({ bytes: bytesOf(post(Buffer.alloc(70_000, 32)), post(body)) }),
  "one that stalls": (body) => certain(post(body).subarray(0, -1), 408),
  "one that stalls in its headers": (body) => certain(post(body).subarray(0, 30), 408),
  "one that leaves": (body, random) => {
    const bytes = random.oneIn(2)
      ? post(body, { length: body.length + random.below(2) })
      : chunked(body, random);
    return {
      bytes: bytes.subarray(0, random.below(bytes.length + 1)),
      leaves: random.pick(["end", "reset"]),
    };
  },
};

/** Makes `count` attacks. Half of them are bodies with correct framing. */
export function attacks(random: Random, count: number): (Attack & { readonly name: string })[] {
  return Array.from({ length: count }, () => {
    const isFramed = random.oneIn(2);
    const [name, make] = random.pick(Object.entries(isFramed ? bodies : requests));
    return { name, ...make(isFramed ? hostileBody(random) : plain(random), random) };
  });
}

/** Sends an attack in pieces. Resolves to the text that came back before all answers were there or time was up. */
export async function heardFrom(
  port: number,
  { bytes, statuses, leaves }: Attack,
  random: Random,
): Promise<string> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
  let heard = "";
  const done = new Promise<void>((resolve) => {
    socket.setEncoding("latin1").on("data", (text) => {
      heard += text;
      if (answersIn(heard).answers.length >= (statuses?.length ?? 1)) resolve();
    });
    // A server may end a connection with a reset, even before the attack has sent everything.
    socket
      .on("end", resolve)
      .on("close", resolve)
      .on("error", () => resolve());
  });
  await Promise.race([once(socket, "connect"), done]);
  const cut = random.below(bytes.length + 1);
  socket.write(bytes.subarray(0, cut));
  await sleep(random.below(4));
  socket.write(bytes.subarray(cut));
  if (leaves === "reset") socket.resetAndDestroy();
  else if (leaves === "end") socket.end();
  // Wait longer for answers that are certain, because the machine may be busy.
  await Promise.race([done, sleep(statuses ? 10_000 : 1_000)]);
  socket.destroy();
  return heard;
}

const EMPTY_CHUNKED = "0\r\n\r\n";

export interface Answer {
  readonly status: number;
  readonly body: string;
}

/** Reads the answers. Leaves out interim ones. */
export function answersIn(text: string): { readonly answers: Answer[]; readonly rest: string } {
  const answers: Answer[] = [];
  let rest = text;
  for (;;) {
    const [whole, status, headers = ""] = /^HTTP\/1\.1 (\d{3}) .*\r\n((?:.+\r\n)*)\r\n/.exec(rest) ?? [];
    const [, declared = 0] = /^content-length: (\d+)/im.exec(headers) ?? [];
    // Only Node's own answers are chunked, and they are empty.
    const isChunked = /^transfer-encoding: chunked/im.test(headers);
    const length = isChunked ? EMPTY_CHUNKED.length : Number(declared);
    if (whole === undefined || rest.length < whole.length + length) return { answers, rest };
    const body = rest.slice(whole.length, whole.length + length);
    rest = rest.slice(whole.length + length);
    if (status !== "100")
      answers.push({ status: Number(status), body: isChunked ? body.replace(EMPTY_CHUNKED, "") : body });
  }
}
