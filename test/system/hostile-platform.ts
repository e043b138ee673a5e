import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, createServer as createRawServer, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { onTestFinished } from "vitest";

/** An answer to a request: bytes to send as they are, or a function that uses the socket. */
export type RawAnswer = string | Buffer | ((socket: Socket) => void);

export const booking = '{"bookingCode":"HX-1","status":"Confirmed"}';

/** Makes an answer with correct framing. The status, body and headers may be wrong. */
export const answerOf = (status: number | string, body = "", headers: readonly string[] = []): Buffer =>
  Buffer.from(
    [`HTTP/1.1 ${status} X`, `content-length: ${body.length}`, ...headers, "", body].join("\r\n"),
    "latin1",
  );

/** Starts a platform that answers every request with the given bytes. A test may change `answer`. */
export async function rawPlatform(answer: RawAnswer) {
  const sockets = new Set<Socket>();
  const platform = { url: "", answer, requests: 0 };
  const server = createRawServer((socket) => {
    sockets.add(socket);
    let heard = "";
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      heard += chunk.toString("latin1");
      for (let end = heard.indexOf("\r\n\r\n"); end >= 0; end = heard.indexOf("\r\n\r\n")) {
        heard = heard.slice(end + 4);
        platform.requests++;
        if (typeof platform.answer === "function") platform.answer(socket);
        else socket.write(platform.answer);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  platform.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return platform;
}

/** Starts a platform on Node's own HTTP server. */
export async function httpPlatform(listener: RequestListener): Promise<{ readonly url: string }> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** Writes the same bytes again and again until the socket closes. */
const again =
  (first: string, next: string, ms: number) =>
  (socket: Socket): void => {
    socket.write(first);
    const timer = setInterval(() => socket.write(next), ms);
    socket.on("close", () => clearInterval(timer));
  };

const half = `HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n${booking}`;

/** Answers that hold no record. Each has the error that the client must throw. */
export const hostileAnswers: readonly (readonly [
  name: string,
  answer: RawAnswer,
  error:
    | "ConnectionError"
    | "ConnectionTimeoutError"
    | "APIError"
    | "InternalServerError"
    | "NotFoundError"
    | "ResponseValidationError",
])[] = [
  ...["000", "001", "99", "100", "101", "199", "1000", "-1", "abc", ""].map(
    (status) =>
      [
        `the status "${status}"`,
        answerOf(status, booking, ["connection: close"]),
        "ConnectionError",
      ] as const,
  ),
  ...["304", "306", "399"].map((status) => [`the status ${status}`, answerOf(status), "APIError"] as const),
  ...["599", "600", "999"].map(
    (status) => [`the status ${status}`, answerOf(status), "InternalServerError"] as const,
  ),
  ["204", answerOf(204), "NotFoundError"],
  ["no body", answerOf(200), "NotFoundError"],
  ["what is no HTTP", "SSH-2.0-OpenSSH_9.9\r\n", "ConnectionError"],
  ["nothing, and hangs up", (socket) => socket.end(), "ConnectionError"],
  ["a reset", (socket) => socket.resetAndDestroy(), "ConnectionError"],
  ["nothing", () => {}, "ConnectionTimeoutError"],
  ["headers that drip", again("HTTP/1.1 200 OK\r\n", "x: y\r\n", 10), "ConnectionTimeoutError"],
  [
    "one interim answer after another",
    again("", "HTTP/1.1 103 X\r\nlink: y\r\n\r\n", 10),
    "ConnectionTimeoutError",
  ],
  ["a body that drips", again(half, " ", 10), "ConnectionTimeoutError"],
  ["half a body", half, "ConnectionTimeoutError"],
  ["half a body, and hangs up", (socket) => socket.end(half), "ConnectionError"],
  [
    "half a body, and a reset",
    (socket) => socket.write(half, () => setTimeout(() => socket.resetAndDestroy(), 10)),
    "ConnectionError",
  ],
  ["a length below zero", `HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n${booking}`, "ConnectionError"],
  ["two lengths", answerOf(200, booking, ["content-length: 5"]), "ConnectionError"],
  [
    "a length too short",
    `HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n${booking}`,
    "ResponseValidationError",
  ],
  ["a bad chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "ConnectionError"],
  ["a header of a megabyte", answerOf(200, booking, [`x: ${"y".repeat(1_000_000)}`]), "ConnectionError"],
  ["many headers", answerOf(200, booking, Array<string>(50_000).fill("x: y")), "ConnectionError"],
  [
    "fifty encodings",
    answerOf(200, booking, [`content-encoding: ${Array(50).fill("gzip")}`]),
    "ConnectionError",
  ],
  ["gzip that is none", answerOf(200, booking, ["content-encoding: gzip"]), "ConnectionError"],
  ["a redirect to itself", answerOf(302, "", ["location: /v2/bookings/HX-1"]), "APIError"],
  ["a redirect deeper and deeper", answerOf(302, "", ["location: x/y"]), "APIError"],
  ["a redirect to nowhere", answerOf(302, "", ["location: http://[::1"]), "APIError"],
  ["a redirect to a script", answerOf(302, "", ["location: javascript:alert(1)"]), "APIError"],
  ["a redirect to a file", answerOf(302, "", ["location: file:///etc/passwd"]), "APIError"],
  ["a redirect elsewhere", answerOf(302, "", ["location: http://127.0.0.1:1/"]), "APIError"],
  ["a redirect in other bytes", answerOf(302, "", ["location: /\xff\xfe%zz"]), "APIError"],
  ["a page", answerOf(200, "<html>Sign in</html>"), "ResponseValidationError"],
  ["half of it as whole", answerOf(200, booking.slice(0, 30)), "ResponseValidationError"],
  ["bytes that are no text", answerOf(200, "\xff\xfe\x00{"), "ResponseValidationError"],
  ["a NUL behind it", answerOf(200, `${booking}\0`), "ResponseValidationError"],
  ["it twice", answerOf(200, booking + booking), "ResponseValidationError"],
  ["a list of two", answerOf(200, `[${booking},${booking}]`), "ResponseValidationError"],
  [
    "another type of status",
    answerOf(200, '{"bookingCode":"HX-1","status":{"toString":"Confirmed"}}'),
    "ResponseValidationError",
  ],
  [
    "it in what is inherited",
    answerOf(200, '{"bookingCode":"HX-1","__proto__":{"status":"Confirmed"}}'),
    "ResponseValidationError",
  ],
  ["brackets", answerOf(200, "[".repeat(100_000)), "ResponseValidationError"],
  ["depth", answerOf(200, `${"[".repeat(200_000)}${"]".repeat(200_000)}`), "ResponseValidationError"],
  [
    "depth in properties",
    answerOf(200, `${'{"data":'.repeat(200_000)}0${"}".repeat(200_000)}`),
    "ResponseValidationError",
  ],
  [
    "depth as an error",
    answerOf(500, `${'{"error":'.repeat(200_000)}0${"}".repeat(200_000)}`),
    "InternalServerError",
  ],
];

/** Returns `bytes` zero bytes, compressed to about a thousandth of that size. */
export const bomb = (bytes: number): Buffer => gzipSync(Buffer.alloc(bytes), { level: 9 });
