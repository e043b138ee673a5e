// Connections that are streams of the server's own process, so that the kernel and a second process cost nothing.
import type { Server } from "node:http";
import { Duplex } from "node:stream";
import { requestSource } from "./load-requests.ts";
import type { Scheme } from "./secrets.ts";

const SOCKETS = 50;

interface FakeLoad {
  readonly ms: number;
  readonly path: string;
  readonly scheme?: Scheme | undefined;
}

/** Keeps 50 fake sockets busy for `ms` ms. Resolves to the number of answers. Rejects at an answer that is not 200. */
export async function answeredThrough(server: Server, { ms, path, scheme }: FakeLoad): Promise<number> {
  const newSource = requestSource(path, scheme);
  const until = performance.now() + ms;
  let answered = 0;
  const one = (next: () => Buffer): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = new Duplex({
        read() {},
        // Node writes a small answer in one piece, so each write of ours is an answer.
        write(chunk: Buffer | string, _encoding, written) {
          written();
          const head = chunk.toString("latin1");
          if (!head.startsWith("HTTP/1.1 200 ")) return reject(new Error(`refused: ${head.slice(0, 400)}`));
          answered += 1;
          if (performance.now() < until) setImmediate(() => socket.push(Buffer.from(next())));
          else socket.destroy();
        },
      });
      socket.on("close", resolve).on("error", reject);
      server.emit("connection", socket);
      socket.push(Buffer.from(next()));
    });
  await Promise.all(Array.from({ length: SOCKETS }, () => one(newSource())));
  return answered;
}
