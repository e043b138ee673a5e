import { once } from "node:events";
import { createServer, type IncomingMessage, request as send } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** Starts a proxy on loopback until the test ends. It makes tunnels, and forwards requests for http. */
export async function connectProxy() {
  const requests: IncomingMessage[] = [];
  const proxy = createServer((request, response) => {
    requests.push(request);
    const { url, method, headers } = request;
    const forwarded = send(url!, { method: method!, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    request.pipe(forwarded.on("error", () => response.destroy()));
  });
  const sockets = new Set<Socket>();
  proxy.on("connect", (request: IncomingMessage, client: Socket, head: Buffer) => {
    requests.push(request);
    const { hostname, port } = new URL(`http://${request.url}`);
    const server = connect(Number(port), hostname, () => {
      client.write("HTTP/1.1 200 Connection established\r\n\r\n");
      server.write(head);
      server.pipe(client).pipe(server);
    });
    for (const end of [server, client]) {
      sockets.add(end);
      end.on("error", () => {});
    }
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  });
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    /** The requests that the proxy got. */
    requests,
    /** The host that each request was for. */
    get targets() {
      return requests.map(({ method, url }) => (method === "CONNECT" ? url : new URL(url!).host));
    },
  };
}
