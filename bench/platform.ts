// The platform for the client benchmark: a bare HTTP server in its own process.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { answerCalls } from "./calls.ts";

let reads = 0;
const server = createServer((request, response) => {
  reads += 1;
  const bookingCode = request.url?.split("/").at(-1);
  const body = JSON.stringify({
    ...{ bookingCode, status: "Confirmed", listingId: 7, checkIn: "2026-07-01", checkOut: "2026-07-05" },
    ...{ guest: { name: "A. Guest", language: "en" }, adults: 2, children: 1, currency: "EUR", total: 412.5 },
  });
  response.writeHead(200, { "content-type": "application/json", "content-length": body.length }).end(body);
});

const functions = {
  async open(): Promise<string> {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  },
  /** Returns the number of requests since the last call. */
  reads(): number {
    const counted = reads;
    reads = 0;
    return counted;
  },
};
export type PlatformFunctions = typeof functions;
answerCalls(functions);
