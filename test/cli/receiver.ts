import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** An endpoint that answers 200 to everything, and keeps the bodies. */
export async function receiver(): Promise<{
  readonly url: string;
  readonly received: () => readonly string[];
}> {
  const bodies: string[] = [];
  const server = createServer(async (request, response) => {
    bodies.push((await request.setEncoding("utf8").toArray()).join(""));
    response.end();
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, received: () => bodies };
}

/** Where nobody listens. */
export async function closed(): Promise<string> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return `http://127.0.0.1:${port}`;
}
