import type { Socket } from "node:net";
import { gzipSync } from "node:zlib";
import type { StayhookError } from "stayhook";
import { describe, expect, it } from "vitest";
import { answering, type Reply, rejection } from "../client/support.ts";
import { eventually } from "../support/eventually.ts";

const MiB = 1024 * 1024;
const booking = '{"bookingCode":"A","status":"Confirmed"}';
const half = `HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n${booking}`;

type Sent = string | ((socket: Socket) => void);

/** Makes an answer with correct framing. The status, body and headers may be wrong. */
const answerOf = (status: number | string, body = "", ...headers: string[]) =>
  [`HTTP/1.1 ${status} X`, `content-length: ${body.length}`, ...headers, "", body].join("\r\n");

/** Makes a reply of bytes that no HTTP server would send. */
const raw = (sent: Sent): Reply => ({
  raw: ({ socket }) => (typeof sent === "function" ? sent(socket as Socket) : socket?.write(sent, "latin1")),
});

/** Writes the same bytes again and again until the socket closes. */
const again = (first: string, next: string) => (socket: Socket) => {
  socket.write(first);
  const timer = setInterval(() => socket.write(next), 10);
  socket.on("close", () => clearInterval(timer));
};

const nested = (open: string, close: string) => `${open.repeat(200_000)}0${close.repeat(200_000)}`;

/** Answers that hold no record, by the error that the client throws. */
const hostile: Record<string, Record<string, Sent>> = {
  ConnectionError: {
    "no body": answerOf(200),
    ...Object.fromEntries(
      ["000", "99", "101", "1000", "-1", "abc"].map((status) => [status, answerOf(status, booking)]),
    ),
    "what is no HTTP": "SSH-2.0-OpenSSH_9.9\r\n",
    "nothing, and hangs up": (socket) => socket.end(),
    "half a body, and hangs up": (socket) => socket.end(half),
    "half a body, and a reset": (socket) =>
      socket.write(half, () => setTimeout(() => socket.resetAndDestroy(), 10)),
    "a length below zero": `HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n${booking}`,
    "two lengths": answerOf(200, booking, "content-length: 5"),
    "a bad chunk": "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "a header of a megabyte": answerOf(200, booking, `x: ${"y".repeat(MiB)}`),
    "fifty encodings": answerOf(200, booking, `content-encoding: ${Array(50).fill("gzip")}`),
    "gzip that is none": answerOf(200, booking, "content-encoding: gzip"),
  },
  ConnectionTimeoutError: {
    nothing: () => {},
    "headers that drip": again("HTTP/1.1 200 OK\r\n", "x: y\r\n"),
    "one interim answer after another": again("", "HTTP/1.1 103 X\r\nlink: y\r\n\r\n"),
    "a body that drips": again(half, " "),
  },
  APIError: {
    "the status 399": answerOf(399),
    "a redirect to itself": answerOf(302, "", "location: /v2/bookings/A", "connection: close"),
    "a redirect deeper and deeper": answerOf(302, "", "location: x/y", "connection: close"),
    "a redirect to a file": answerOf(302, "", "location: file:///etc/passwd", "connection: close"),
    "a redirect in other bytes": answerOf(302, "", "location: /\xff\xfe%zz", "connection: close"),
  },
  InternalServerError: {
    "the status 999": answerOf(999),
    "depth as an error": answerOf(500, nested('{"error":', "}")),
  },
  NotFoundError: { "204": answerOf(204) },
  ResponseValidationError: {
    "a length too short": `HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n${booking}`,
    "bytes that are no text": answerOf(200, "\xff\xfe\x00{"),
    "a NUL behind it": answerOf(200, `${booking}\0`),
    "it twice": answerOf(200, booking + booking),
    "another type of status": answerOf(200, '{"bookingCode":"A","status":{"toString":"Confirmed"}}'),
    "it in what is inherited": answerOf(200, '{"bookingCode":"A","__proto__":{"status":"Confirmed"}}'),
    depth: answerOf(200, nested("[", "]")),
    "depth in properties": answerOf(200, nested('{"data":', "}")),
  },
};

describe("the client, answered", () => {
  const cases = Object.entries(hostile).flatMap(([name, answers]) =>
    Object.entries(answers).map(([what, sent]) => [name, what, sent] as const),
  );
  it.each(cases)("throws %s: %s", async (name, _, sent) => {
    // Other cases wait longer, because the machine may be busy.
    const timeout = name === "ConnectionTimeoutError" ? 400 : 10_000;
    const error = await rejection<StayhookError>((await answering(raw(sent), { timeout })).bookings.get("A"));
    expect(error.name).toBe(name);
    expect(error.message.length).toBeLessThan(700);
  });

  /** Returns the error of a read, and the largest growth of this process's memory until then, in bytes. */
  async function growth(reply: Reply) {
    const client = await answering(reply);
    const before = process.memoryUsage.rss();
    let most = 0;
    const sampling = setInterval(() => {
      most = Math.max(most, process.memoryUsage.rss() - before);
    }, 2);
    const error = await rejection(client.bookings.get("A")).finally(() => clearInterval(sampling));
    return { error, most };
  }

  it.each([
    [200, "ResponseValidationError"],
    [500, "InternalServerError"],
  ])("a %i without end: takes in 10 MiB, and hangs up", async (status, name) => {
    let sent = 0;
    let closed = false;
    const endless: Reply["raw"] = (response) => {
      response.writeHead(status);
      const more = () => {
        for (let fits = true; fits && !response.destroyed; sent += 65_536)
          fits = response.write(Buffer.alloc(65_536, 32));
      };
      response.on("drain", more).on("close", () => {
        closed = true;
      });
      more();
    };
    const { error, most } = await growth({ raw: endless });
    expect(error.name).toBe(name);
    expect(most).toBeLessThan(150 * MiB);
    await eventually(() => expect(closed).toBe(true));
    // Buffers of the sockets and the stream also count as sent.
    expect(sent).toBeGreaterThan(10 * MiB);
    expect(sent).toBeLessThan(40 * MiB);
  });

  const bomb = gzipSync(Buffer.alloc(400 * MiB), { level: 9 });
  it.each([
    ["gzip", bomb],
    ["gzip, gzip", gzipSync(bomb)],
  ])("a bomb, packed by %s: takes 10 MiB of what is in it", async (encoding, packed) => {
    const raw: Reply["raw"] = (response) =>
      response.writeHead(200, { "content-encoding": encoding }).end(packed);
    const { error, most } = await growth({ raw });
    expect(most).toBeLessThan(150 * MiB);
    expect(error.message).toMatch(/longer than 10485760 bytes/);
    expect((error.body as string).length).toBeLessThan(11 * MiB);
  });

  it.each(["0", "{}", "[]", '"x"'])(
    "millions of invalid rows, %s: throws an error of few issues",
    async (row) => {
      const client = await answering({ text: `[${Array(2_000_000).fill(row).join()}]` });
      const error = await rejection(client.listings.list());
      const [first, ...others] = error.issues as { path: unknown[] }[];
      expect([error.name, first?.path[0]]).toEqual(["ResponseValidationError", 0]);
      // With an issue for each row, this would take minutes.
      expect(others.length).toBeLessThan(2_000);
    },
  );

  it("__proto__ and the like: gives a record that inherits nothing from it", async () => {
    const polluting = '"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}';
    const record = await (await answering({ text: `{${polluting},${booking.slice(1)}` })).bookings.get("A");
    expect(record).toMatchObject(JSON.parse(booking));
    expect([Object.getPrototypeOf(record), "polluted" in record]).toEqual([Object.prototype, false]);
    expect({}).not.toHaveProperty("polluted");
  });
});
