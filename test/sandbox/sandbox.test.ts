import { execFile } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { inspect, promisify } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import { StayhookClient } from "../../src/client/client.ts";
import { InvalidArgumentError, StayhookError } from "../../src/errors.ts";
import { createSandbox } from "../../src/testing/index.ts";
import { eventually, PATIENCE } from "../support/eventually.ts";
import { call, configure, startEndpoint, startSandbox } from "./setup.ts";

describe("createSandbox", () => {
  it.each<[unknown, (string | number)[]]>([
    [{ seed: 1.5 }, ["seed"]],
    [{ accessToken: "" }, ["accessToken"]],
    [{ accessToken: "a\nb" }, ["accessToken"]],
    [{ logger: { warn() {} } }, ["logger"]],
    [{ delivery: 1 }, ["delivery"]],
    [{ delivery: { duplicates: -1 } }, ["delivery", "duplicates"]],
    [{ delivery: { duplicates: 0.5 } }, ["delivery", "duplicates"]],
    [{ delivery: { shuffle: "yes" } }, ["delivery", "shuffle"]],
    [{ delivery: { delay: -1 } }, ["delivery", "delay"]],
    [{ delivery: { delay: Number.NaN } }, ["delivery", "delay"]],
    [{ delivery: { delay: 2 ** 31 } }, ["delivery", "delay"]],
    [{ delivery: { delay: [2, 1] } }, ["delivery", "delay"]],
    [{ delivery: { retry: {} } }, ["delivery", "retry", "schedule"]],
    [{ delivery: { retry: { schedule: 5 } } }, ["delivery", "retry", "schedule"]],
    [{ delivery: { retry: { schedule: [5, -1] } } }, ["delivery", "retry", "schedule", 1]],
    [{ delivery: { duplicate: 1 } }, ["delivery"]],
    [{ delivery: { duplicateAfter: -1 } }, ["delivery", "duplicateAfter"]],
    [{ delivery: { drop: 1.1 } }, ["delivery", "drop"]],
    [{ delivery: { timeout: 0 } }, ["delivery", "timeout"]],
    [{ faults: {} }, ["faults"]],
    [{ faults: [{}] }, ["faults", 0]],
    [{ faults: [{ status: 200 }] }, ["faults", 0, "status"]],
    [{ faults: [{ status: 503 }, { delay: -1 }] }, ["faults", 1, "delay"]],
    [{ faults: [{ delay: 1, retryAfter: 1 }] }, ["faults", 0, "retryAfter"]],
    [{ faults: [{ status: 503, retryAfter: "a\nb" }] }, ["faults", 0, "retryAfter"]],
    [{ faults: [{ status: 503, rate: 2 }] }, ["faults", 0, "rate"]],
    [{ faults: [{ status: 503, times: 0 }] }, ["faults", 0, "times"]],
    [{ faults: [{ status: 503, route: "GET /v2/booking/{bookingCode}" }] }, ["faults", 0, "route"]],
    [{ faults: [{ status: 503, route: "DELETE /v2/listings" }] }, ["faults", 0, "route"]],
    [{ token: "x" }, []],
    [null, []],
  ])("refuses %j and names the field", (options, path) => {
    expect.assertions(2);
    try {
      createSandbox(options as never);
    } catch (error) {
      expect(error).toBeInstanceOf(InvalidArgumentError);
      expect((error as InvalidArgumentError).issues.map((issue) => issue.path)).toEqual([path]);
    }
  });

  it("names an unknown option and every wrong field, but no token", () => {
    expect(() => createSandbox({ delivery: { dupes: 1 } } as never)).toThrow(
      "delivery: unknown option `dupes`; the known options are `duplicates`",
    );
    const make = () => createSandbox({ seed: 0.5, accessToken: "s3cret token" });
    expect(make).toThrow(/^seed: .*; accessToken: .*/);
    expect(make).not.toThrow("s3cret");
  });

  it("takes undefined for every option", () => {
    const sandbox = createSandbox({
      seed: undefined,
      accessToken: undefined,
      logger: undefined,
      delivery: { duplicates: undefined, shuffle: undefined, delay: undefined, retry: undefined },
    });
    expect(sandbox.accessToken).toBe("sandbox-token");
  });

  it("has a default token that the client does not redact from ordinary text", async () => {
    const { accessToken, fetch } = createSandbox();
    const client = new StayhookClient({ baseUrl: "https://sandbox.example", accessToken, fetch });
    await expect(client.bookings.get("sandbox")).rejects.toThrow("GET /v2/bookings/sandbox was");
  });

  it("does not show its token in logs", async () => {
    const sandbox = createSandbox({ accessToken: "s3cret" });
    expect(sandbox.accessToken).toBe("s3cret");
    expect(inspect(sandbox, { depth: 9, showHidden: true }) + JSON.stringify(sandbox)).not.toContain(
      "s3cret",
    );
  });
});

describe("listen", () => {
  it("takes a port and a host, and resolves to a URL that works", async () => {
    const first = await startSandbox();
    const port = Number(new URL(first.url).port);
    await first.close();
    for (const host of ["0.0.0.0", "localhost"]) {
      const sandbox = createSandbox({ accessToken: "tok" });
      const { url } = await sandbox.listen({ port, host });
      expect(new URL(url).port).toBe(String(port));
      expect(url).not.toContain("0.0.0.0");
      expect((await fetch(`${url}/v2/listings`)).status).toBe(401);
      await sandbox.close();
    }
  });

  it("ends with the block of `await using`", async () => {
    let url: string;
    {
      await using sandbox = createSandbox();
      ({ url } = await sandbox.listen());
    }
    await expect(fetch(url)).rejects.toThrow(TypeError);
  });

  it("is required before url, and then resolves to a URL with a free loopback port", async () => {
    const sandbox = createSandbox();
    onTestFinished(() => sandbox.close());
    expect(() => sandbox.url).toThrow(StayhookError);
    expect(() => sandbox.url).toThrow("listen() first");
    const { url } = await sandbox.listen();
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(sandbox.url).toBe(url);
  });

  it("rejects the second time, and after close", async () => {
    const sandbox = createSandbox();
    const first = sandbox.listen();
    await expect(sandbox.listen()).rejects.toThrow("already listens");
    await first;
    await expect(sandbox.listen()).rejects.toThrow(StayhookError);
    await sandbox.close();
    await expect(sandbox.listen()).rejects.toThrow("was closed");
  });

  it("rejects if the port is taken, and can be called again", async () => {
    const { url } = await startSandbox();
    const sandbox = createSandbox();
    onTestFinished(() => sandbox.close());
    await expect(sandbox.listen({ port: Number(new URL(url).port) })).rejects.toThrow("EADDRINUSE");
    expect((await sandbox.listen()).url).toBe(sandbox.url);
  });

  it.each([[{ port: -1 }], [{ port: 65_536 }], [{ port: 1.5 }], [{ port: "80" as never }], [{ host: "" }]])(
    "rejects %j",
    async (options) => {
      await expect(createSandbox().listen(options)).rejects.toBeInstanceOf(InvalidArgumentError);
    },
  );
});

describe("close", () => {
  it("ends the server and waits for no unfinished request, and can be called twice", async () => {
    const sandbox = await startSandbox();
    const { url } = sandbox;
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    await once(socket, "connect");
    socket.write("POST /v2/webhooks/config HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{");
    // The connection of this request stays idle.
    await call(sandbox, "GET", "/v2/listings");
    await Promise.all([sandbox.close(), sandbox.close()]);
    await sandbox.close();
    await expect(fetch(url)).rejects.toThrow();
  });

  it("works without listen, and during listen", async () => {
    await createSandbox().close();
    const sandbox = createSandbox();
    const listening = sandbox.listen();
    await sandbox.close();
    await expect(fetch((await listening).url)).rejects.toThrow();
  });

  it("discards waiting deliveries, ends running ones, and sends nothing more", async () => {
    const endpoint = await startEndpoint(() => {});
    for (const delivery of [{ delay: 60_000 }, { shuffle: 60_000 }]) {
      const waiting = await startSandbox({ delivery });
      const sending = waiting.send({}, { url: endpoint.url });
      await waiting.close();
      expect(await sending).toMatchObject({ status: undefined, error: "not sent: the sandbox was closed" });
      expect(waiting.deliveries).toEqual([]);
    }

    const underWay = await startSandbox({ delivery: { retry: { schedule: [0, 0] } } });
    await configure(underWay, endpoint.url);
    await underWay.bookings.request();
    await eventually(() => expect(endpoint.received).toHaveLength(1));
    await underWay.close();
    expect(underWay.deliveries).toMatchObject([{ status: undefined, error: "the sandbox was closed" }]);
    await underWay.bookings.request();
    await underWay.settled();
    expect(endpoint.received).toHaveLength(1);
  });

  it("ends the wait for a retry", async () => {
    const endpoint = await startEndpoint((response) => response.writeHead(500).end());
    const sandbox = await startSandbox({ delivery: { retry: { schedule: [60_000] } } });
    const sending = sandbox.send({}, { url: endpoint.url });
    await eventually(() => expect(sandbox.deliveries[0]?.status).toBe(500));
    await sandbox.close();
    expect(await sending).toMatchObject({ attempt: 1, status: 500 });
  });

  it("lets the process end", async () => {
    const source = new URL("../../src/sandbox/create-sandbox.ts", import.meta.url);
    const script = `
      import { createServer } from "node:http";
      import { createSandbox } from ${JSON.stringify(source)};
      const endpoint = createServer((_, response) => response.end()).listen(0, "127.0.0.1", async () => {
        const url = "http://127.0.0.1:" + endpoint.address().port;
        const sandbox = createSandbox({ delivery: { retry: { schedule: [600_000] } } });
        await sandbox.listen();
        await sandbox.send({}, { url });
        void sandbox.send({}, { url: "http://127.0.0.1:1/" });
        sandbox.delivery.set({ delay: 600_000, shuffle: 600_000 });
        void sandbox.send({}, { url });
        await new Promise((resolve) => setTimeout(resolve, 50));
        await sandbox.close();
        endpoint.close();
        console.log("closed");
      });`;
    const args = ["--experimental-strip-types", "--no-warnings", "--input-type=module", "--eval", script];
    // The call rejects if the timeout ends the process.
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: PATIENCE });
    expect(stdout).toBe("closed\n");
  });
});
