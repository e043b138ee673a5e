import { createServer as createNodeServer, type RequestListener, type Server } from "node:http";

/** Servers that a block has made, on ports of their own. */
export const servers: Server[] = [];

export function createServer(listener: RequestListener): { listen(port: number): Server } {
  const server = createNodeServer(listener);
  servers.push(server);
  return { listen: () => server.listen(0) };
}
