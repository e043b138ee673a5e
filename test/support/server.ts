import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

/** Throws in `npm test`, whose tests need no server. */
export function refuseInUnitTests(): void {
  if (process.env.STAYHOOK_WITHOUT_SERVERS)
    throw new Error("npm test has no servers. End the name of this test file in .servers.test.ts.");
}

/** Returns a port of 127.0.0.1 that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
