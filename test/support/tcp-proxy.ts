import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** A TCP proxy in front of a server. A test can cut the network while the server stays up. */
export interface TcpProxy {
  readonly port: number;
  /** Breaks all connections and accepts no more until {@link restore}. */
  cut(): void;
  /** Accepts connections again. */
  restore(): void;
  /** Holds back the bytes to the server until {@link release}. The connection is slow, not broken. */
  hold(): void;
  release(): void;
  close(): Promise<void>;
}

/** @param target - `host` and `port` of a server, in a URL of any scheme */
export async function tcpProxy(target: string): Promise<TcpProxy> {
  const { hostname, port } = new URL(target);
  const open = new Set<Socket>();
  const ways = new Map<Socket, Socket>();
  let down = false;
  let held = false;

  const server = createServer((socket) => {
    if (down) {
      socket.resetAndDestroy();
      return;
    }
    const upstream = connect(Number(port), hostname.replace(/^\[|\]$/g, ""));
    for (const [one, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      open.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        open.delete(one);
        ways.delete(one);
        other.destroy();
      });
    }
    ways.set(socket, upstream);
    if (!held) socket.pipe(upstream);
    upstream.pipe(socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");

  return {
    port: (server.address() as { port: number }).port,
    cut() {
      down = true;
      for (const socket of open) socket.destroy();
    },
    restore() {
      down = false;
    },
    hold() {
      held = true;
      for (const [socket, upstream] of ways) socket.unpipe(upstream);
    },
    release() {
      held = false;
      for (const [socket, upstream] of ways) socket.pipe(upstream);
    },
    async close() {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

/** Returns the same URL with the proxy's host and port. */
export function through(proxy: TcpProxy, target: string): string {
  const url = new URL(target);
  url.hostname = "127.0.0.1";
  url.port = String(proxy.port);
  return url.href;
}
