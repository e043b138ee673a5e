// Decodes bodies that were compressed, as their `content-encoding` says.

import { invalidBody, Refused } from "./answers.ts";
import { joined } from "./body-stream.ts";
import { headerOf, type RequestHeaders } from "./request.ts";

/** Decodes bytes. Rejects if the result is larger than `maxBytes`. */
type Decode = (bytes: Uint8Array, maxBytes: number) => Promise<Uint8Array>;

/** More codings than this are an attack, and no proxy adds them. */
const MOST_CODINGS = 3;

/** Returns the codings of a body in the order in which they were applied. `identity` is no coding. */
export function codingsOf(headers: RequestHeaders): readonly string[] {
  const header = headerOf(headers, "content-encoding");
  if (header === undefined || header === "identity") return [];
  const names = header.toLowerCase().split(",");
  // Some clients name the charset here.
  return names.map((name) => name.trim()).filter((name) => !/^(identity|utf-?8)?$/.test(name));
}

/** How large an encoded body may be, because the encoded form of a small or random body is larger than the body. */
export function encodedLimit(maxBytes: number): number {
  return maxBytes + Math.ceil(maxBytes / 8) + 1024;
}

/**
 * Undoes the codings of a body. Returns the bytes unchanged if they are JSON already, because some body parsers decode
 * a body and keep the header.
 *
 * @throws Refused if a coding is unknown, or if the bytes do not have it, or if the decoded body is too large
 */
export async function decodeBody(
  bytes: Uint8Array,
  codings: readonly string[],
  maxBytes: number,
): Promise<Uint8Array> {
  const decoders = decodersOf(codings);
  if (bytes.length === 0 || isJson(bytes)) return bytes;
  let decoded = bytes;
  for (let left = decoders.length; left > 0; left--)
    decoded = await (decoders[left - 1] as Decode)(decoded, left > 1 ? encodedLimit(maxBytes) : maxBytes);
  return decoded;
}

/** @throws Refused if this runtime does not know one of the codings */
export function decodersOf(codings: readonly string[]): Decode[] {
  if (codings.length > MOST_CODINGS) throw unknownEncoding("content-encoding", codings.join(", "));
  return codings.map((coding) => {
    const decode = DECODERS.get(coding)?.();
    if (!decode) throw unknownEncoding("content-encoding", coding);
    return decode;
  });
}

/** Returns the refusal of a body in an encoding that the handler does not read. */
export function unknownEncoding(header: "content-encoding" | "content-type", name: string): Refused {
  const shown = name.replace(/[^\w.,+ -]/g, "").slice(0, 60);
  const message =
    header === "content-encoding"
      ? `"${shown}" is not supported. Use gzip, deflate or br, or send the body without an encoding`
      : `the body is not JSON as UTF-8, and the charset "${shown}" is not supported`;
  return new Refused("encoding", undefined, [{ path: [header], message }]);
}

const gunzip = () => streamDecoder("gzip") ?? zlibDecoder("gunzipSync");

const DECODERS: ReadonlyMap<string, () => Decode | undefined> = new Map([
  ["gzip", gunzip],
  ["x-gzip", gunzip],
  ["deflate", () => deflateDecoder],
  ["br", () => streamDecoder("brotli") ?? zlibDecoder("brotliDecompressSync")],
  ["zstd", () => streamDecoder("zstd") ?? zlibDecoder("zstdDecompressSync")],
]);

/** HTTP's `deflate` has a header, which some senders leave out. */
const deflateDecoder: Decode = (bytes, maxBytes) => {
  const [first = 0, second = 0] = bytes;
  const hasHeader = (first & 15) === 8 && (first * 256 + second) % 31 === 0;
  const decode = hasHeader
    ? (streamDecoder("deflate") ?? zlibDecoder("inflateSync"))
    : (streamDecoder("deflate-raw") ?? zlibDecoder("inflateRawSync"));
  if (!decode) throw unknownEncoding("content-encoding", "deflate");
  return decode(bytes, maxBytes);
};

/** Returns `undefined` if the runtime's `DecompressionStream` does not know the format. */
function streamDecoder(format: string): Decode | undefined {
  let isKnown = knownFormats.get(format);
  if (isKnown === undefined) {
    isKnown = succeeds(() => new DecompressionStream(format as CompressionFormat));
    knownFormats.set(format, isKnown);
  }
  if (!isKnown) return undefined;
  return (bytes, maxBytes) =>
    decodeWith(new DecompressionStream(format as CompressionFormat), bytes, maxBytes);
}

const knownFormats = new Map<string, boolean>();

function succeeds(act: () => unknown): boolean {
  try {
    act();
    return true;
  } catch {
    return false;
  }
}

async function decodeWith(
  { readable, writable }: DecompressionStream,
  bytes: Uint8Array,
  maxBytes: number,
): Promise<Uint8Array> {
  const writer = writable.getWriter();
  // The reader gets the same errors.
  writer.write(bytes as Uint8Array<ArrayBuffer>).catch(() => {});
  writer.close().catch(() => {});
  const reader = readable.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return joined(chunks, size);
      size += value.length;
      if (size > maxBytes) break;
      chunks.push(value);
    }
  } catch {
    throw notDecodable(size > 0 ? joined(chunks, size) : bytes);
  }
  // Stops the decoder, so that a small body cannot become gigabytes.
  reader.cancel().catch(() => {});
  throw new Refused("too-large");
}

function notDecodable(shown: Uint8Array): Refused {
  return invalidBody("is neither JSON nor has the encoding that its content-encoding names", shown);
}

interface Zlib {
  readonly [name: string]: (bytes: Uint8Array, options: { maxOutputLength: number }) => Uint8Array;
}

/** Node's zlib knows zstd, and in older versions brotli, which `DecompressionStream` does not know there. */
function zlibDecoder(name: string): Decode | undefined {
  const { process } = globalThis as {
    process?: { readonly getBuiltinModule?: (id: string) => Zlib | undefined };
  };
  const zlib = process?.getBuiltinModule?.("node:zlib");
  const decode = zlib?.[name];
  if (typeof decode !== "function") return undefined;
  return async (bytes, maxOutputLength) => {
    try {
      return decode(bytes, { maxOutputLength });
    } catch (error) {
      const isTooLarge = (error as { readonly code?: unknown } | null)?.code === "ERR_BUFFER_TOO_LARGE";
      throw isTooLarge ? new Refused("too-large") : notDecodable(bytes);
    }
  };
}

/** `{`, `[`, white space, or the beginning of a byte order mark. */
const JSON_STARTS = new Set([0x7b, 0x5b, 0x20, 0x09, 0x0a, 0x0d, 0xef]);

function isJson(bytes: Uint8Array): boolean {
  if (!JSON_STARTS.has(bytes[0] ?? 0)) return false;
  return succeeds(() => JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)));
}
