import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { createSandbox, type Sandbox } from "../../../src/testing/index.ts";

/** The sandbox behind a server that counts concurrent reads and can fail on demand. */
export interface WatchedPlatform {
  readonly sandbox: Sandbox;
  readonly url: string;
  /** The largest number of concurrent reads: of one record, and in total. */
  readonly most: { ofOne: number; inAll: number };
  /** The number of reads of each path. */
  readonly asked: ReadonlyMap<string, number>;
  /** The delay of each answer, in ms. It stands for the time of a callback. */
  hold: number;
  /** Replaces the sandbox's answer if it returns a value. */
  fault: (path: string) => { readonly status: number; readonly headers?: Record<string, string> } | undefined;
}

/** @param onEnd - registers a function to call at the end of the test */
export async function watchedPlatform(
  onEnd: (end: () => void | Promise<void>) => void,
): Promise<WatchedPlatform> {
  const sandbox = createSandbox({ delivery: { duplicates: 1 } });
  onEnd(() => sandbox.close());
  const { url: behind } = await sandbox.listen();
  const running = new Map<string, number>();
  const asked = new Map<string, number>();
  const platform: WatchedPlatform = {
    sandbox,
    url: "",
    most: { ofOne: 0, inAll: 0 },
    asked,
    hold: 0,
    fault: () => undefined,
  };

  async function answer(path: string, authorization: string, response: ServerResponse): Promise<void> {
    const fault = platform.fault(path);
    if (fault) {
      response.writeHead(fault.status, fault.headers).end();
      return;
    }
    const answered = await fetch(behind + path, { headers: { authorization } });
    const body = await answered.text();
    await sleep(platform.hold);
    response.writeHead(answered.status, { "content-type": "application/json" }).end(body);
  }

  const server = createServer(async (request, response) => {
    const path = request.url ?? "";
    asked.set(path, (asked.get(path) ?? 0) + 1);
    const ofOne = (running.get(path) ?? 0) + 1;
    running.set(path, ofOne);
    const inAll = [...running.values()].reduce((sum, count) => sum + count);
    platform.most.ofOne = Math.max(platform.most.ofOne, ofOne);
    platform.most.inAll = Math.max(platform.most.inAll, inAll);
    await answer(path, request.headers.authorization ?? "", response).catch(() => response.destroy());
    running.set(path, (running.get(path) ?? 1) - 1);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  return Object.assign(platform, { url: `http://127.0.0.1:${(server.address() as { port: number }).port}` });
}
