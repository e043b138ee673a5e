import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

/** Starts a load balancer that passes each request to the next web process. */
export async function balance(ports: readonly number[]): Promise<{ url: string; close: () => void }> {
  let turn = 0;
  const server = createServer((incoming, outgoing) => {
    const port = ports[turn++ % ports.length];
    const { method, url: path, headers } = incoming;
    const passed = request({ host: "127.0.0.1", port, method, path, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on("error", () => (outgoing.headersSent ? outgoing.destroy() : outgoing.writeHead(502).end()));
    incoming.pipe(passed);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
