import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import type { Random } from "../../system/random.ts";

/** A proxy in front of a server that can cause network faults. It closes at the end of the test. */
export interface FaultyProxy {
  readonly url: string;
  /** How many connections were made so far. */
  readonly connections: number;
  /** How often a client has sent something and got an answer so far. */
  readonly roundTrips: number;
  /** How long answers wait, ms. With `Infinity`, no answer arrives. */
  delay: number;
  /** Cuts a connection inside of one in a hundred packets, in either direction, and holds up as many for up to 30 ms. */
  faults: Random | undefined;
  /** Passes nothing on of the connections that are open now. Later connections work. */
  stall(): void;
  /** Passes nothing on in either direction and keeps all connections open, like a machine that hangs. */
  hang(): void;
  /** Cuts all connections and refuses new ones. */
  cut(): void;
  /** Passes data on again, on new connections. */
  restore(): void;
  /**
   * Cuts the connection when the server gives its nth answer from now to a request from now on, so that the client does
   * not get this answer. Resolves to `true` then, and to `false` if `forget` is called before.
   */
  loseAnswer(nth: number): { readonly lost: Promise<boolean>; forget(): void };
}

/** @param onEnd - registers a function to call at the end of the test. A concurrent test has its own */
export async function createProxy(
  target: string,
  onEnd: (end: () => void) => void = onTestFinished,
): Promise<FaultyProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let connections = 0;
  let roundTrips = 0;
  /** The connections whose last data came from the client. */
  const asking = new Set<Socket>();
  let state: "open" | "hanging" | "cut" = "open";
  let losing: { left: number; readonly asked: Set<Socket>; resolve(lost: boolean): void } | undefined;

  let stalled = 0;
  const server = createServer((near) => {
    connections += 1;
    const number = connections;
    const far = connect(Number(port), hostname);
    const end = (): void => {
      near.destroy();
      far.destroy();
    };
    if (state === "cut") end();
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", end).on("close", () => {
        sockets.delete(socket);
        end();
      });
    }
    const toFar = unreliably(far, end);
    const toNear = unreliably(near, end);
    near.on("data", (chunk) => {
      if (state === "hanging" || number <= stalled) return;
      losing?.asked.add(near);
      asking.add(near);
      if (proxy.faults) toFar(chunk, proxy.faults);
      else far.write(chunk);
    });
    far.on("data", (chunk) => {
      if (state === "hanging") return;
      if (asking.delete(near)) roundTrips += 1;
      if (losing?.asked.delete(near)) losing.left -= 1;
      if (losing?.left === 0) {
        losing.resolve(true);
        losing = undefined;
        end();
        return;
      }
      if (proxy.faults) toNear(chunk, proxy.faults);
      else if (proxy.delay === 0) near.write(chunk);
      else if (proxy.delay < Number.POSITIVE_INFINITY)
        setTimeout(() => near.write(chunk), proxy.delay).unref();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const endAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  onEnd(() => {
    server.close();
    endAll();
  });
  const url = new URL(target);
  url.hostname = "127.0.0.1";
  url.port = String((server.address() as { readonly port: number }).port);
  const proxy: FaultyProxy = {
    url: url.href,
    delay: 0,
    faults: undefined,
    stall() {
      stalled = connections;
    },
    get connections() {
      return connections;
    },
    get roundTrips() {
      return roundTrips;
    },
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
    loseAnswer(nth) {
      const { promise: lost, resolve } = Promise.withResolvers<boolean>();
      losing = { left: nth, asked: new Set(), resolve };
      return {
        lost,
        forget() {
          losing = undefined;
          resolve(false);
        },
      };
    },
  };
  return proxy;
}

/** Returns a function that passes packets on in their order, but cuts and holds up some of them. */
function unreliably(to: Socket, end: () => void): (chunk: Buffer, random: Random) => void {
  let before = Promise.resolve();
  return (chunk, random) => {
    const part = random.chance(0.01) ? random.below(chunk.length) : undefined;
    const wait = random.chance(0.01) ? random.below(30) : 0;
    before = before.then(async () => {
      if (wait > 0) await sleep(wait);
      to.write(chunk.subarray(0, part));
      if (part !== undefined) to.end(end);
    });
  };
}
