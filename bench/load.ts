// The load generator, in its own process. It writes requests that were made before the clock starts to raw sockets, so
// that it costs less than the measured servers.
import { connect } from "node:net";
import { answerCalls } from "./calls.ts";
import { requestSource } from "./load-requests.ts";
import type { Scheme } from "./secrets.ts";

const CONNECTIONS = 50;
/** The offset of the status in `HTTP/1.1 200`, and the digit 2 in ASCII. */
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
  /** The part of a core that this process used. Near 1, the load generator limits the result. */
  readonly load: number;
}

const functions = { run };
export type LoadFunctions = typeof functions;
answerCalls(functions);

async function run({ port, ms, path, scheme }: Load): Promise<LoadResult> {
  const newSource = requestSource(path, scheme);
  const sources = Array.from({ length: CONNECTIONS }, newSource);
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

/** Returns the length of head and body, or `undefined` if the answer is incomplete. */
function answerLength(text: string): number | undefined {
  const head = text.indexOf("\r\n\r\n");
  if (head < 0) return undefined;
  const length = /\r\ncontent-length: (\d+)/i.exec(text.slice(0, head));
  if (length) return head + 4 + Number(length[1]);
  // Without content-length, the answer is chunked. No other answer follows before the next request.
  return text.endsWith("\r\n0\r\n\r\n") ? text.length : undefined;
}
