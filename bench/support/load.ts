// Run as a process of its own: sends notifications to a port, over connections that stay open, and reports how many
// were answered 200 each second. It writes HTTP by hand, to cost less than what it measures.
import { connect } from "node:net";

export interface Load {
  readonly port: number;
  readonly path: string;
  readonly connections: number;
  /** It ends with the first of the two. */
  readonly requests: number;
  readonly ms: number;
}

export interface LoadResult {
  readonly perSecond: number;
  /** Answered with anything but 200. */
  readonly refused: number;
}

let events = 0;

process.on("message", (load: Load) => {
  run(load).then(
    (result) => process.send?.(result),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
});

async function run({ port, path, connections, requests, ms }: Load): Promise<LoadResult> {
  const start = performance.now();
  const until = start + ms;
  let sent = 0;
  let answered = 0;
  let refused = 0;
  const one = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1");
      let received = "";
      const next = (): void => {
        if (sent === requests || performance.now() > until) {
          socket.end();
          resolve();
          return;
        }
        sent++;
        socket.write(request(path));
      };
      socket.setNoDelay(true).setEncoding("latin1").on("connect", next).on("error", reject);
      socket.on("close", () => resolve());
      socket.on("data", (chunk: string) => {
        received += chunk;
        const length = answerLength(received);
        if (length === undefined || received.length < length) return;
        if (received.startsWith("HTTP/1.1 200 ")) answered++;
        else refused++;
        received = received.slice(length);
        next();
      });
    });
  await Promise.all(Array.from({ length: connections }, one));
  return { perSecond: (answered / (performance.now() - start)) * 1000, refused };
}

function request(path: string): string {
  const id = (events++).toString(16).padStart(12, "0");
  const body = JSON.stringify({
    eventId: `0d4fd8a6-35a5-4f0c-9b0e-${id}`,
    timestamp: "2026-05-01T12:00:00.000Z",
    bookingCode: `HX${events % 1000}`,
    listingId: null,
  });
  return `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

/** Of head and body; nothing while the answer is not whole. */
function answerLength(text: string): number | undefined {
  const head = text.indexOf("\r\n\r\n");
  if (head < 0) return undefined;
  const length = /\r\ncontent-length: (\d+)/i.exec(text.slice(0, head));
  if (length) return head + 4 + Number(length[1]);
  // In chunks, then; and no answer is followed by another one that was not asked for.
  return text.endsWith("\r\n0\r\n\r\n") ? text.length : undefined;
}
