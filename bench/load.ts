// The load generator, in its own process. It writes HTTP by hand, so that it costs less than the measured servers.
import { createHmac } from "node:crypto";
import { connect } from "node:net";
import { answerCalls } from "./calls.ts";
import { type Scheme, secrets } from "./secrets.ts";

const CONNECTIONS = 50;
/** Number of requests to sign before the clock starts. Signing costs more than the rest of a request. */
const SIGNED = 500;
/** The offset of the status in `HTTP/1.1 200`, and the digit 2. */
const [STATUS, TWO] = [9, 0x32];

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
}

let events = 0;

const functions = { run };
export type LoadFunctions = typeof functions;
answerCalls(functions);

async function run({ port, ms, path, scheme }: Load): Promise<LoadResult> {
  const signed = scheme && Array.from({ length: SIGNED }, () => request(path, scheme));
  const next = signed ? () => signed[events++ % SIGNED]! : () => request(path);
  const start = performance.now();
  let answered = 0;
  // Recognize an answer by its usual length: a search for its end costs as much as the rest of a request.
  let usual = 0;
  const one = (): Promise<void> =>
    new Promise((resolve, reject) => {
      let begun = "";
      const send = (): void => {
        if (performance.now() - start > ms) socket.end();
        else socket.write(next(), "latin1");
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
  await Promise.all(Array.from({ length: CONNECTIONS }, one));
  return { answered, perSecond: (answered / (performance.now() - start)) * 1000 };
}

function request(path: string, scheme?: Scheme): string {
  const number = events++;
  const eventId = `0d4fd8a6-35a5-4f0c-8${(process.pid % 4096).toString(16).padStart(3, "0")}-${number.toString(16).padStart(12, "0")}`;
  const body = `{"eventId":"${eventId}","timestamp":"2026-05-01T12:00:00.000Z","bookingCode":"HX${number % 1000}","listingId":null}`;
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
