import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** A proxy in front of PostgreSQL that can cause network faults. */
export interface PostgresProxy {
  readonly connectionString: string;
  /** Passes nothing on in either direction and keeps all connections open, like a machine that hangs. */
  hang(): void;
  /** Cuts all connections and refuses new ones. */
  cut(): void;
  /** Passes data on again. Data that was held back is lost. */
  restore(): void;
  /**
   * Cuts a connection after the server has answered a request that contains `text`. The client does not get the answer.
   */
  loseAnswerTo(text: string): void;
  /** Drops data from the server that begins with a message of this kind and contains `text`. */
  drop(text: string, kind: string): void;
  close(): Promise<void>;
}

export async function postgresProxy(target: string): Promise<PostgresProxy> {
  const { hostname, port } = new URL(target);
  const open = new Set<Socket>();
  let state: "open" | "hanging" | "cut" = "open";
  let lost: string | undefined;
  let dropped: { readonly text: string; readonly kind: string } | undefined;

  const server = createServer((socket) => {
    if (state === "cut") {
      socket.destroy();
      return;
    }
    const upstream = connect(Number(port), hostname);
    let losing = false;
    for (const [one, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      open.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        open.delete(one);
        other.destroy();
      });
    }
    socket.on("data", (chunk) => {
      if (state === "hanging") return;
      if (lost !== undefined && chunk.includes(lost)) {
        lost = undefined;
        losing = true;
      }
      upstream.write(chunk);
    });
    upstream.on("data", (chunk) => {
      if (losing) socket.destroy();
      else if (dropped && chunk.includes(dropped.text) && String.fromCharCode(chunk[0] ?? 0) === dropped.kind)
        return;
      else if (state !== "hanging") socket.write(chunk);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = new URL(target);
  url.hostname = "127.0.0.1";
  url.port = String((server.address() as { readonly port: number }).port);
  const endAll = () => {
    for (const socket of open) socket.destroy();
  };

  return {
    connectionString: url.href,
    hang() {
      state = "hanging";
    },
    cut() {
      state = "cut";
      endAll();
    },
    restore() {
      state = "open";
      endAll();
    },
    loseAnswerTo(text) {
      lost = text;
    },
    drop(text, kind) {
      dropped = { text, kind };
    },
    async close() {
      endAll();
      server.close();
      await once(server, "close");
    },
  };
}
