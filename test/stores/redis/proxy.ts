import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** A way to Redis that can be cut, or on which answers get lost. */
export interface Proxy {
  readonly url: string;
  /** How many connections have been made through it. */
  readonly connections: number;
  /** ms by which answers are late; with `Infinity`, none comes. */
  delay: number;
  /** Cuts what is connected. */
  cut(): void;
  /** Lets what is connected be, but passes nothing on any more; what connects later works. */
  stall(): void;
  /** Resolves once Redis has answered the next request, of which nobody hears: the connection is cut. */
  loseNextAnswer(): Promise<void>;
}

export async function createProxy(target: string): Promise<Proxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let connections = 0;
  let lose: (() => void) | undefined;
  /** The connection that asks next, once an answer is to be lost: others may be told something meanwhile. */
  let asking: Socket | undefined;
  let stalled = 0;
  const server = createServer((near) => {
    connections += 1;
    const number = connections;
    const far = connect(Number(port), hostname);
    const end = (): void => {
      near.destroy();
      far.destroy();
    };
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", end).on("close", () => {
        sockets.delete(socket);
        end();
      });
    }
    near.on("data", (chunk) => {
      if (number <= stalled) return;
      if (lose !== undefined) asking ??= near;
      far.write(chunk);
    });
    far.on("data", (chunk) => {
      if (lose === undefined || asking !== near) {
        if (proxy.delay === Number.POSITIVE_INFINITY) return;
        if (proxy.delay > 0) setTimeout(() => near.write(chunk), proxy.delay).unref();
        else near.write(chunk);
        return;
      }
      lose();
      lose = undefined;
      end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(() => {
    server.close();
    cut();
  });
  const proxy: Proxy = {
    url: `redis://127.0.0.1:${(server.address() as { port: number }).port}`,
    get connections() {
      return connections;
    },
    delay: 0,
    cut,
    stall() {
      stalled = connections;
    },
    loseNextAnswer: () =>
      new Promise((resolve) => {
        asking = undefined;
        lose = resolve;
      }),
  };
  return proxy;
}
