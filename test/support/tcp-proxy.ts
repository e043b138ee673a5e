import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** A way to a server that can be cut: for what happens when the network fails, while the server lives on. */
export interface TcpProxy {
  readonly port: number;
  /** Breaks all connections, and takes no more until {@link restore}. */
  cut(): void;
  /** Takes connections again. */
  restore(): void;
  /** Keeps back what is sent to the server until {@link release}: slow, not broken. */
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

/** The same URL, by way of the proxy. */
export function through(proxy: TcpProxy, target: string): string {
  const url = new URL(target);
  url.hostname = "127.0.0.1";
  url.port = String(proxy.port);
  return url.href;
}
