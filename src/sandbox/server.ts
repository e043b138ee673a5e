import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type ApiRequest, type ApiResponse, maxBodyBytes } from "./api.ts";

/** Serves the platform's API over HTTP. Resolves once it listens; rejects where it cannot. */
export async function serve(
  answer: (request: ApiRequest) => Promise<ApiResponse>,
  { port, host }: { readonly port: number; readonly host: string },
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    readBody(request)
      .then(async (body) => send(response, await answer(toRequest(request, body))))
      // The caller is gone, or the answer could not be made.
      .catch(() => response.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host }, () => {
      server.off("error", reject);
      resolve();
    });
  });
  return { url: urlOf(server), close: () => close(server) };
}

const toRequest = (request: IncomingMessage, body: string | undefined): ApiRequest => ({
  method: request.method ?? "",
  target: request.url ?? "/",
  authorization: request.headers.authorization,
  body,
});

/** `undefined` where it is larger than any that this API takes. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength;
    // Read on, but keep nothing: who is still sending does not see the answer.
    if (size <= maxBodyBytes) chunks.push(chunk);
  }
  return size > maxBodyBytes ? undefined : Buffer.concat(chunks).toString("utf8");
}

function send(response: ServerResponse, { status, headers, text = "", cutOff }: ApiResponse): void {
  if (cutOff && text === "") return void response.destroy();
  const body = Buffer.from(text);
  const length = status === 204 || status === 304 ? {} : { "content-length": body.byteLength };
  response.writeHead(status, { ...headers, ...length });
  if (!cutOff) return void response.end(body);
  response.write(body.subarray(0, Math.ceil(body.byteLength / 2)), () => response.destroy());
}

/** The address at which it can be reached, which that of all interfaces is not everywhere. */
function urlOf(server: Server): string {
  const { address, port, family } = server.address() as AddressInfo;
  const host = address === "0.0.0.0" ? "127.0.0.1" : address === "::" ? "::1" : address;
  return `http://${family === "IPv6" ? `[${host}]` : host}:${port}`;
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
