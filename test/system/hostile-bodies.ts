import { deflateSync, gzipSync } from "node:zlib";
import type { Random } from "./random.ts";

export const LIMIT = 65_536;

const hex = (random: Random, count: number): string =>
  Array.from({ length: count }, () => random.pick([..."0123456789abcdefABCDEF"])).join("");

export const uuid = (random: Random): string => [8, 4, 4, 4, 12].map((count) => hex(random, count)).join("-");

/** Values as JSON text. Some of them have forms that no serializer writes. */
const bookingCodes = (random: Random): string[] => [
  `"HX-${hex(random, 4)}"`,
  "null",
  `"${"x".repeat(256)}"`,
  `"${"😀".repeat(256)}"`,
  `"${"x".repeat(257)}"`,
  `"${"x".repeat(60_000)}"`,
  '""',
  '"."',
  '".."',
  '"a/b?c#d%2e%2e"',
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"\\ud83d\\ude00"',
  '"a\\u0000b"',
  '"\\u007f"',
  '"\\u0085"',
  '"constructor"',
  '"__proto__"',
  "5",
  "true",
  "[]",
  "{}",
];

const listingIds = (random: Random): string[] => [
  "null",
  String(random.below(1_000_000)),
  `"${random.below(1_000_000)}"`,
  "1e3",
  "5.0",
  "-1",
  "1.5",
  "1e999",
  "-1e999",
  "9".repeat(400),
  `"${"9".repeat(400)}"`,
  "9007199254740991",
  "9007199254740993",
  '"1e3"',
  '""',
  '"-1"',
  "false",
  "[1]",
  '{"valueOf":1}',
];

const timestamps = [
  '"2026-05-01T12:00:00Z"',
  '"2026-05-01t12:00:00z"',
  '"2026-05-01 12:00"',
  '"2026-05-01T12:00:00.123456789012345678901234567890+0200"',
  '"2026-05-01T12:00:00,5-11"',
  '"2024-02-29T24:00:00Z"',
  '"2026-12-31T23:59:60Z"',
  '"20260501T120000.250Z"',
  '"2026-05-01T1200:30-0330"',
  '"2026-0501T12:00:00Z"',
  '"2026-02-29T12:00:00Z"',
  '"2026-05-01T12:61:00Z"',
  '"2026-05-01T25:00:00Z"',
  '"2026-05-01"',
  '"Fri, 01 May 2026 12:00:00 GMT"',
  `"2026-05-01T12:00:00.${"0".repeat(60_000)}Z"`,
  `"${"2".repeat(60_000)}"`,
  "1777636800000",
  "null",
  '""',
];

const extras = (random: Random): string[] => [
  '"__proto__":{"eventId":"x","polluted":true}',
  '"constructor":{"prototype":{"polluted":true}}',
  '"toString":null,"hasOwnProperty":1,"toJSON":"x","then":"y","valueOf":{}',
  '"then":{"on":1},"on":"x","pause":"y","getReader":"z"',
  `"deep":${"[".repeat(30_000)}${"]".repeat(30_000)}`,
  `"deep":${'{"a":'.repeat(10_000)}0${"}".repeat(10_000)}`,
  '"surrogate":"\\ud800","\\udfff":"\\u0000"',
  `"number":${"9".repeat(400)},"huge":1e999,"tiny":1e-999,"minus":-0`,
  '"eventId":"not an id"',
  '"timestamp":null',
  `"eventId":"${uuid(random)}"`,
  '"bookingCode":null,"bookingCode":"HX-LAST"',
  `"\\u0065ventId":"${uuid(random)}"`,
  `"many":{${Array.from({ length: 2_000 }, (_, index) => `"k${index}":0`).join()}}`,
  `"text":"${"é".repeat(1_000)}"`,
  '"":""',
];

/** Makes a notification. Some are incomplete. */
function notification(random: Random): string {
  const members = [
    `"eventId":${random.oneIn(8) ? random.pick(["null", '"x"', "1", `"{${uuid(random)}}"`, `"${uuid(random)}0"`]) : `"${uuid(random)}"`}`,
    `"timestamp":${random.oneIn(3) ? random.pick(timestamps) : timestamps[0]}`,
    `"bookingCode":${random.pick(bookingCodes(random))}`,
    `"listingId":${random.oneIn(2) ? "null" : random.pick(listingIds(random))}`,
  ].filter(() => !random.oneIn(25));
  while (random.oneIn(2)) members.splice(random.below(members.length + 1), 0, random.pick(extras(random)));
  const gap = random.pick(["", " ", "\r\n\t"]);
  return `${gap}{${gap}${members.join(`,${gap}`)}${gap}}${gap}`;
}

/** Makes a valid notification in its plainest form. */
export const plain = (random: Random): string =>
  `{"eventId":"${uuid(random)}","timestamp":"2026-05-01T12:00:00Z","bookingCode":"HX-${hex(random, 4)}","listingId":null}`;

type Spoil = (text: string, random: Random) => Uint8Array | string;

const insert = (text: string, random: Random, what: Uint8Array): Uint8Array => {
  const bytes = Buffer.from(text);
  const at = random.below(bytes.length + 1);
  return Buffer.concat([bytes.subarray(0, at), what, bytes.subarray(at)]);
};

const spoils: readonly Spoil[] = [
  (text) => text,
  (text) => text,
  (text) => text,
  (text) => `\ufeff${text}`,
  (text) => `\ufeff\ufeff${text}`,
  (text) => Buffer.from(text, "utf16le"),
  (text) => text + text,
  (text) => `[${text}]`,
  (text) => JSON.stringify(text),
  (text) => `${text}\u0000`,
  (text) => `)]}',\n${text}`,
  (text) => text.replaceAll('"', "'"),
  (text) => gzipSync(text),
  (text) => deflateSync(text),
  (text, random) => text.slice(0, random.below(text.length)),
  (text, random) => text.slice(random.below(text.length)),
  (text, random) => insert(text, random, Buffer.from([0xff])),
  (text, random) => insert(text, random, Buffer.from([0xed, 0xa0, 0x80])),
  (text, random) => insert(text, random, Buffer.from([0xc0, 0xaf])),
  (text, random) => insert(text, random, Buffer.from([0xf4, 0x90, 0x80, 0x80])),
  (text, random) => insert(text, random, Buffer.from([0])),
  (text, random) => insert(text, random, random.bytes(1 + random.below(4))),
  (text) => text + " ".repeat(Math.max(0, LIMIT - Buffer.byteLength(text))),
  (text) => text + " ".repeat(Math.max(0, LIMIT + 1 - Buffer.byteLength(text))),
];

const strange = (random: Random): (Uint8Array | string)[] => [
  "",
  " ",
  "null",
  "0",
  '"x"',
  "[]",
  "{}",
  "\ufeff",
  "[".repeat(LIMIT),
  "[".repeat(LIMIT / 2) + "]".repeat(LIMIT / 2),
  `${'{"":'.repeat(13_000)}0${"}".repeat(13_000)}`,
  "9".repeat(LIMIT),
  `"${"\\ud800".repeat(10_000)}"`,
  "x".repeat(200_000),
  random.bytes(random.below(2_000)),
  "eventId=1&timestamp=2",
  '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
];

/** Makes a body that a client might send. */
export function hostileBody(random: Random): Uint8Array {
  const made = random.oneIn(6)
    ? random.pick(strange(random))
    : random.pick(spoils)(notification(random), random);
  return Buffer.from(made as Uint8Array);
}
