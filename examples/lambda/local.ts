// The function on your machine: what a function URL does, in a few lines.
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { handler } from "./function.ts";

const { PORT = "3000" } = process.env;

const server = createServer(async (request, response) => {
  const { pathname, search } = new URL(request.url ?? "/", "http://localhost");
  const { statusCode, headers, body } = await handler({
    rawPath: pathname,
    rawQueryString: search.slice(1),
    headers: request.headers as Record<string, string>,
    requestContext: { http: { method: request.method } },
    body: Buffer.from(await text(request)).toString("base64"),
    isBase64Encoded: true,
  });
  response.writeHead(statusCode, headers).end(body);
});
server.listen(Number(PORT), () => console.log(`listening on port ${PORT}`));

process.once("SIGTERM", () => server.close());
