import type { Random } from "./random.ts";
import type { Step } from "./raw-socket.ts";

export const crlf = "\r\n";

export function request(
  body: Uint8Array | string,
  { line = "POST /hooks HTTP/1.1", headers = ["host: x"], length = Buffer.byteLength(body) as unknown } = {},
): Buffer {
  const lines = [line, ...headers, ...(length === null ? [] : [`content-length: ${length}`]), "", ""];
  return Buffer.concat([Buffer.from(lines.join(crlf), "latin1"), Buffer.from(body as Uint8Array)]);
}

const CHUNKED = ["host: x", "transfer-encoding: chunked"];
export const chunkedHead = (...more: string[]): Buffer =>
  request("", { headers: [...CHUNKED, ...more], length: null });

export function chunked(body: Uint8Array, random: Random, extension = ""): Buffer {
  const parts: Buffer[] = [];
  const most = Math.max(1, Math.ceil(body.length / (1 + random.below(20))));
  for (let at = 0; at < body.length; ) {
    const size = Math.min(1 + random.below(most), body.length - at);
    parts.push(
      Buffer.from(`${size.toString(16)}${extension}${crlf}`),
      Buffer.from(body.subarray(at, at + size)),
    );
    parts.push(Buffer.from(crlf));
    at += size;
  }
  return Buffer.concat([...parts, Buffer.from(`0${crlf}${crlf}`)]);
}

export function pieces(bytes: Buffer, random: Random): Step[] {
  const steps: Step[] = [];
  for (let at = 0; at < bytes.length; ) {
    const size = 1 + random.below(bytes.length - at);
    steps.push({ write: bytes.subarray(at, at + size) }, { wait: random.below(3) });
    at += size;
  }
  return steps;
}

/** Damages bytes in one of the ways in which a network may damage them. */
export function mutate(bytes: Buffer, random: Random): Buffer {
  let result = Buffer.from(bytes);
  for (let times = 1 + random.below(4); times > 0; times--) {
    const at = random.below(result.length);
    const to = Math.min(result.length, at + 1 + random.below(8));
    const part = result.subarray(at, to);
    const replaced = random.pick<() => Uint8Array>([
      () => random.bytes(part.length),
      () => Buffer.alloc(0),
      () => Buffer.concat([part, part]),
      () => Buffer.concat([part, random.bytes(1 + random.below(4))]),
      () => Buffer.from(part).reverse(),
      () =>
        Buffer.from(
          random.pick(["\r\n", "\n", "\0", ":", "-1", "0", '"', "{", "}", ",", "\\u", "\ufeff", "  "]),
        ),
      () => part.map((byte) => byte ^ (1 << random.below(8))),
    ])();
    result = Buffer.concat([result.subarray(0, at), replaced, result.subarray(to)]);
  }
  return result;
}
