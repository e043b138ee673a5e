// The requests of a load, made before the clock starts.
import { createHmac } from "node:crypto";
import { type Scheme, secrets } from "./secrets.ts";

/** Number of signed requests. Signing costs more than the rest of a request, so each of them is sent many times. */
const SIGNED = 500;
/** Digits in ASCII. */
const [ZERO, NINE] = [0x30, 0x39];
const BOOKING = "HX000";

let ids = 0;

/** Returns a function that makes the requests of one connection. With a scheme, all connections share signed ones. */
export function requestSource(path: string, scheme: Scheme | undefined): () => () => Buffer {
  if (scheme === undefined) return () => counting(path);
  const signed = Array.from({ length: SIGNED }, () => Buffer.from(request(path, newId(), scheme)));
  let sent = 0;
  return () => () => signed[sent++ % SIGNED]!;
}

/**
 * Makes the requests of one connection: one buffer, in which the event id and the booking's code are counted up. The
 * connection sends its next request after an answer, so the kernel has read the buffer by then.
 */
function counting(path: string): () => Buffer {
  const id = newId();
  const bytes = Buffer.from(request(path, id));
  const [idAt, bookingAt] = [bytes.indexOf(id), bytes.indexOf(BOOKING)];
  return () => {
    increment(bytes, idAt, 8);
    increment(bytes, bookingAt + 2, BOOKING.length - 2);
    return bytes;
  };
}

/** Counts up a decimal number in place. After the last number of its length, begins at 0 again. */
function increment(bytes: Buffer, at: number, length: number): void {
  let place = at + length - 1;
  for (; place >= at && bytes[place] === NINE; place -= 1) bytes[place] = ZERO;
  if (place >= at) bytes[place]! += 1;
}

/** Makes an id that begins with eight digits 0. The rest differs for each call and process. */
function newId(): string {
  const hex = (value: number, length: number): string => value.toString(16).padStart(length, "0");
  return `00000000-35a5-4f0c-8${hex(process.pid % 4096, 3)}-${hex(ids++, 12)}`;
}

function request(path: string, eventId: string, scheme?: Scheme): string {
  const body = `{"eventId":"${eventId}","timestamp":"2026-05-01T12:00:00.000Z","bookingCode":"${BOOKING}","listingId":null}`;
  const headers = scheme ? signature(scheme, eventId, body) : "";
  return `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`;
}

function signature(scheme: Scheme, id: string, body: string): string {
  const time = Math.floor(Date.now() / 1000);
  const hmac = (key: string | Buffer, text: string) => createHmac("sha256", key).update(text);
  if (scheme === "stripe") {
    const v1 = hmac(secrets.stripe, `${time}.${body}`).digest("hex");
    return `stripe-signature: t=${time},v1=${v1}\r\n`;
  }
  if (scheme === "svix") {
    const key = Buffer.from(secrets.svix.slice("whsec_".length), "base64");
    const v1 = hmac(key, `${id}.${time}.${body}`).digest("base64");
    return `svix-id: ${id}\r\nsvix-timestamp: ${time}\r\nsvix-signature: v1,${v1}\r\n`;
  }
  const sha = hmac(secrets.octokit, body).digest("hex");
  return `x-github-delivery: ${id}\r\nx-github-event: push\r\nx-hub-signature-256: sha256=${sha}\r\n`;
}
