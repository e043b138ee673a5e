// The load generator, in its own process. It writes requests that were made before the clock starts to raw sockets, so
// that it costs less than the measured servers.
import { createHmac } from "node:crypto";
import { connect } from "node:net";
import { answerCalls } from "./calls.ts";
import { type Scheme, secrets } from "./secrets.ts";

const CONNECTIONS = 50;
/** Number of signed requests. Signing costs more than the rest of a request, so each of them is sent many times. */
const SIGNED = 500;
/** The offset of the status in `HTTP/1.1 200`, and some digits in ASCII. */
const [STATUS, ZERO, TWO, NINE] = [9, 0x30, 0x32, 0x39];
const BOOKING = "HX000";

/** The load of a run: requests to a port for `ms` ms. */
export interface Load {
  readonly port: number;
  readonly ms: number;
  readonly path: string;
  /** With a scheme, the load repeats a set of signed requests. Without one, each request has its own event id. */
  readonly scheme?: Scheme | undefined;
}

export interface LoadResult {
  readonly answered: number;
  readonly perSecond: number;
  /** The part of a core that this process used. Near 1, the load generator limits the result. */
  readonly load: number;
}

let ids = 0;

const functions = { run };
export type LoadFunctions = typeof functions;
answerCalls(functions);

async function run({ port, ms, path, scheme }: Load): Promise<LoadResult> {
  let sent = 0;
  const signed = scheme && Array.from({ length: SIGNED }, () => Buffer.from(request(path, newId(), scheme)));
  const sources = Array.from({ length: CONNECTIONS }, () =>
    signed ? () => signed[sent++ % SIGNED]! : counting(path),
  );
  const start = performance.now();
  const cpu = process.cpuUsage();
  let isOver = false;
  setTimeout(() => {
    isOver = true;
  }, ms);
  let answered = 0;
  // Recognize an answer by its usual length: a search for its end costs as much as the rest of a request.
  let usual = 0;
  const one = (next: () => Buffer): Promise<void> =>
    new Promise((resolve, reject) => {
      let begun = "";
      const send = (): void => {
        if (isOver) socket.end();
        else socket.write(next());
      };
      const take = (size: number, buffer: Uint8Array): boolean => {
        const isWhole = begun === "" && size === usual && buffer[STATUS] === TWO;
        if (!isWhole) {
          begun += Buffer.from(buffer.buffer, buffer.byteOffset, size).toString("latin1");
          const length = answerLength(begun);
          if (length === undefined || begun.length < length) return true;
          if (!begun.startsWith("HTTP/1.1 200 ")) {
            reject(new Error(`refused: ${begun.slice(0, 400)}`));
            socket.destroy();
            return false;
          }
          usual = length;
          begun = "";
        }
        answered += 1;
        send();
        return true;
      };
      const onread = { buffer: Buffer.alloc(4096), callback: take };
      const socket = connect({ port, host: "127.0.0.1", noDelay: true, onread });
      socket.on("connect", send).on("error", reject).on("close", resolve);
    });
  await Promise.all(sources.map(one));
  const { user, system } = process.cpuUsage(cpu);
  const took = performance.now() - start;
  return { answered, perSecond: (answered / took) * 1000, load: (user + system) / 1000 / took };
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

/** Returns the length of head and body, or `undefined` if the answer is incomplete. */
function answerLength(text: string): number | undefined {
  const head = text.indexOf("\r\n\r\n");
  if (head < 0) return undefined;
  const length = /\r\ncontent-length: (\d+)/i.exec(text.slice(0, head));
  if (length) return head + 4 + Number(length[1]);
  // Without content-length, the answer is chunked. No other answer follows before the next request.
  return text.endsWith("\r\n0\r\n\r\n") ? text.length : undefined;
}
