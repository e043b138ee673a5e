import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * Starts a platform that fails in many ways, and records the requests. The `fetch` of each runtime may report the
 * failures differently.
 */
export async function whimsicalPlatform() {
  const requests: { readonly target: string; readonly headers: IncomingMessage["headers"] }[] = [];
  const asked = new Map<string, number>();
  const server = createServer((request, response) => {
    const target = `${request.method} ${request.url}`;
    requests.push({ target, headers: request.headers });
    const times = (asked.get(target) ?? 0) + 1;
    asked.set(target, times);
    answer(target, times, request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function answer(target: string, times: number, request: IncomingMessage, response: ServerResponse): void {
  const json = (status: number, body: unknown, headers: Record<string, string> = {}) =>
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  const code = target.split("/").at(-1)!;
  const booking = { bookingCode: code, status: "Confirmed" };
  switch (target) {
    case "GET /v2/bookings/ONCE503":
      return void (times === 1 ? json(503, {}, { "retry-after": "0" }) : json(200, booking));
    case "GET /v2/bookings/ONCE429":
      return void (times === 1 ? json(429, {}, { "retry-after": "0" }) : json(200, booking));
    case "GET /v2/bookings/CUT":
      response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
      response.write('{"bookingCode":');
      return void setTimeout(() => response.destroy(), 20);
    case "GET /v2/bookings/ALWAYS500":
      return void json(500, { token: request.headers.authorization });
    case "GET /v2/bookings/MOVED":
      return void response.writeHead(302, { location: "/v2/moved/MOVED" }).end();
    case "GET /v2/bookings/REFRESH":
      return void (/-unauthorized-2$/.test(request.headers.authorization ?? "")
        ? json(200, booking)
        : json(401, {}));
    case "PUT /v2/elsewhere":
      return void response.writeHead(307, { location: "/v2/there" }).end();
    case "GET /v2/bookings/SILENT":
      return;
    case "GET /v2/bookings/NORECORD":
      return void json(200, { message: "hello" });
    case "GET /v2/listings":
      return void response.writeHead(200, { "content-type": "text/html" }).end("<html>");
    case "POST /v2/echo?a=1&a=2":
      return void request.setEncoding("utf8").on("data", (text: string) => json(200, JSON.parse(text)));
    default:
      return void json(200, booking);
  }
}
