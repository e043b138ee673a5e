import { connect } from "node:net";

/** A step of an attack on a connection. */
export type Step =
  | { readonly write: Uint8Array | string }
  /** In ms. */
  | { readonly wait: number }
  /** Waits for this number of answers, or for the end of the connection. */
  | { readonly answers: number }
  /** Closes the sending half of the connection. */
  | { readonly end: true }
  | { readonly reset: true };

export interface Answer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

export interface Heard {
  readonly answers: readonly Answer[];
  /** The bytes that are not an HTTP answer. */
  readonly rest: string;
  readonly closed: boolean;
}

/** Runs the steps. Then it waits for `expect` answers, for the end of the connection, or for `patience` ms. */
export function attack(
  port: number,
  steps: readonly Step[],
  { expect = 1, patience = 1_500, head = false } = {},
): Promise<Heard> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    const chunks: Buffer[] = [];
    let closed = false;
    let wake = (): void => {};
    const count = (): number => parse(Buffer.concat(chunks), head).answers.length;
    const until = async (done: () => boolean, ms: number): Promise<void> => {
      const end = performance.now() + ms;
      while (!closed && !done() && performance.now() < end) {
        await new Promise<void>((resume) => {
          wake = resume;
          setTimeout(resume, Math.max(1, end - performance.now()));
        });
      }
    };
    socket.setNoDelay(true);
    socket.on("data", (chunk) => {
      chunks.push(chunk);
      wake();
    });
    const over = (): void => {
      closed = true;
      wake();
    };
    socket.on("end", over).on("close", over);
    // A server may close a connection with a reset.
    socket.on("error", over);
    socket.on("connect", async () => {
      for (const step of steps) {
        if (socket.destroyed) break;
        if ("write" in step) socket.write(step.write);
        else if ("wait" in step) await until(() => false, step.wait);
        else if ("answers" in step) await until(() => count() >= step.answers, patience);
        else if ("end" in step) socket.end();
        else socket.resetAndDestroy();
      }
      await until(() => count() >= expect, patience);
      const heard = parse(Buffer.concat(chunks), head);
      socket.destroy();
      resolve({ ...heard, closed });
    });
  });
}

function parse(bytes: Buffer, head: boolean): { answers: Answer[]; rest: string } {
  const answers: Answer[] = [];
  let text = bytes.toString("latin1");
  for (;;) {
    const split = text.indexOf("\r\n\r\n");
    const status = /^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1];
    if (split < 0 || status === undefined) return { answers, rest: text };
    const lines = text.slice(0, split).split("\r\n").slice(1);
    const headers = new Map(
      lines.map((line) => [
        line.split(":", 1)[0]?.toLowerCase() ?? "",
        line.slice(line.indexOf(":") + 1).trim(),
      ]),
    );
    const after = text.slice(split + 4);
    const length = lengthOf(headers, after, head || status.startsWith("1"));
    if (length === undefined || after.length < length) return { answers, rest: text };
    text = after.slice(length);
    // The handler's answers are short, so a chunked body has at most one chunk.
    const body = after.slice(0, length).replace(/^(?:[0-9a-f]+\r\n([\s\S]*)\r\n)?0\r\n\r\n$/, "$1");
    if (!status.startsWith("1")) answers.push({ status: Number(status), headers, body });
  }
}

/** Returns the length of a body, or `undefined` if it is not known yet. */
function lengthOf(
  headers: ReadonlyMap<string, string>,
  after: string,
  bodiless: boolean,
): number | undefined {
  const declared = headers.get("content-length");
  if (bodiless) return 0;
  if (declared !== undefined) return Number(declared);
  if (headers.get("transfer-encoding") === "chunked") {
    const end = after.indexOf("0\r\n\r\n");
    return end < 0 ? undefined : end + 5;
  }
  // Node's answer to bytes that are not HTTP has no body and no length.
  return 0;
}
