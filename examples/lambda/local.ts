// Runs the function on your machine, like a function URL.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { handler } from "./function.ts";

const { HOST = "127.0.0.1", PORT = "3000" } = process.env;

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  // Do not use new URL(), which throws on a path such as //.
  const [rawPath = "/", rawQueryString = ""] = (request.url ?? "/").split(/\?(.*)/s);
  const { statusCode, headers, body } = await handler({
    rawPath,
    rawQueryString,
    headers: request.headers as Record<string, string>,
    requestContext: { http: { method: request.method } },
    body: Buffer.from(await text(request)).toString("base64"),
    isBase64Encoded: true,
  });
  response.writeHead(statusCode, headers).end(body);
}

const server = createServer((request, response) => {
  answer(request, response).catch((error) => {
    console.error(error);
    response.destroy();
  });
});
server.listen(Number(PORT), HOST, () => console.log(`listening on port ${PORT} of ${HOST}`));

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => server.close());
