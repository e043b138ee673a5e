import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** A proxy in front of Redis that can cut connections or lose answers. */
export interface Proxy {
  readonly url: string;
  /** Number of connections made so far. */
  readonly connections: number;
  /** Delay of answers, in ms. With `Infinity`, no answer arrives. */
  delay: number;
  /** Cuts all open connections. */
  cut(): void;
  /** Keeps open connections but passes nothing on. Later connections work. */
  stall(): void;
  /** Resolves after Redis has answered the next request. The proxy cuts the connection, so the answer is lost. */
  loseNextAnswer(): Promise<void>;
}

export async function createProxy(target: string): Promise<Proxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let connections = 0;
  let lose: (() => void) | undefined;
  /** The connection whose answer is lost. Other connections may carry notifications, which must arrive. */
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
