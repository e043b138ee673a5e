// Servers and proxies that refuse a connection, or parts of it.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import pg from "pg";
import { expect, onTestFinished, test, vi } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

/** What a proxy does with a new connection, by the parameters of its start. Returns the code and text of an error. */
type Judge = (
  start: string,
  open: ReadonlySet<Socket>,
) => readonly [code: string, text: string, severity?: string] | "cut" | "wait" | undefined;

/** Starts a proxy in front of the server. */
async function startProxy(judge: Judge): Promise<string> {
  const { hostname, port } = new URL(url);
  const open = new Set<Socket>();
  const waiting = new Set<Socket>();
  const server = createServer((client) => {
    client.on("error", () => {});
    client.once("data", (start) => {
      const refusal = judge(start.toString("latin1"), open);
      if (refusal === "cut") return client.end("Too many connections\n");
      if (refusal === "wait") return waiting.add(client);
      if (refusal !== undefined) return client.end(fatal(...refusal));
      const far = connect(Number(port || 5432), hostname);
      open.add(client);
      far.on("error", () => {}).write(start);
      client.pipe(far).pipe(client);
      client.on("close", () => open.delete(client) && far.destroy());
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of [...open, ...waiting]) socket.destroy();
  });
  return Object.assign(new URL(url), { hostname: "127.0.0.1", port: (server.address() as AddressInfo).port })
    .href;
}

/** An error that ends the start of a connection, as PostgreSQL sends it. */
function fatal(code: string, text: string, severity = "FATAL"): Buffer {
  const fields = Buffer.from(`S${severity}\0VFATAL\0C${code}\0M${text}\0\0`);
  const head = Buffer.alloc(5);
  head.write("E");
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}

describePostgres("a proxy that refuses parameters of a connection's start", () => {
  const schemas = createSchemas();

  test.each([
    ["PgBouncer", "08P01", "unsupported startup parameter: statement_timeout"],
    ["RDS Proxy", "0A000", "RDS Proxy currently doesn't support the option statement_timeout"],
    [
      "RDS Proxy",
      "XX000",
      "Feature not supported: RDS Proxy currently doesn’t support command-line options.",
    ],
    ["an unknown one", "57P03", "no"],
    ["one that says ERROR", "08P01", "no", "ERROR"],
    ["a server that speaks Russian", "42704", "no", "ВАЖНО"],
  ])(
    "%s (%s) gets a connection without them, for many calls at once",
    async (_, code, text, severity = "FATAL") => {
      const starts: string[] = [];
      const connectionString = await startProxy((start) => {
        starts.push(start);
        return /statement_timeout|application_name/.test(start) ? [code, text, severity] : undefined;
      });
      const store = schemas.store({ connectionString });
      onTestFinished(() => store.close());
      const answers = await Promise.all(Array.from({ length: 20 }, () => store.add(eventOf())));
      expect(new Set(answers)).toEqual(new Set(["added"]));
      const before = starts.length;
      const claims = await store.claim({ ...CLAIM, limit: 20 });
      expect(await Promise.all(claims.map((claim) => store.settle(claim, DONE)))).toEqual(
        claims.map(() => true),
      );
      // The store has learnt it.
      expect(starts.slice(before).join("")).not.toContain("statement_timeout");
    },
  );

  test.each([
    ["28P01", "password authentication failed"],
    ["3D000", "database does not exist"],
  ])("%s is no such refusal: the connection is not tried again", async (code, text) => {
    let starts = 0;
    const connectionString = await startProxy(() => {
      starts += 1;
      return [code, text];
    });
    const store = schemas.store({ connectionString });
    onTestFinished(() => store.close());
    await expect(store.add(eventOf())).rejects.toThrow(text);
    expect(starts).toBe(1);
  });

  test("and refuses the connection without them, too: the next call sends them again", async () => {
    let isDown = true;
    const starts: string[] = [];
    const connectionString = await startProxy((start) => {
      starts.push(start);
      return isDown ? ["57P03", "the database system is starting up"] : undefined;
    });
    const store = schemas.store({ connectionString });
    onTestFinished(() => store.close());
    await expect(store.add(eventOf())).rejects.toThrow("the database system is starting up");
    isDown = false;
    starts.length = 0;
    expect(await store.add(eventOf())).toBe("added");
    expect(starts.join("")).toContain("statement_timeout");
  });

  test("of the user's pool: the error names the options of the pool", async () => {
    const connectionString = await startProxy((start) =>
      /lock_timeout/.test(start)
        ? ["0A000", "RDS Proxy currently doesn't support the option lock_timeout"]
        : undefined,
    );
    const pool = new pg.Pool({ connectionString, lock_timeout: 1000 });
    const store = schemas.store({ pool });
    onTestFinished(async () => {
      await store.close();
      await pool.end();
    });
    await expect(store.add(eventOf())).rejects.toThrow(
      "doesn't support the option lock_timeout. If a proxy refuses parameters of a connection, make the pool without lock_timeout",
    );
  });
});

describePostgres("a server that takes one connection", () => {
  const schemas = createSchemas();
  const single =
    (way: "cut" | "wait"): Judge =>
    (_, open) =>
      open.size > 0 ? way : undefined;

  test("works with maxConnections: 1, and is asked for no other one", async () => {
    let refused = 0;
    const counting: Judge = (_, open) => {
      refused += Number(open.size > 0);
      return open.size > 0 ? "cut" : undefined;
    };
    const store = schemas.store({
      connectionString: await startProxy(counting),
      maxConnections: 1,
      pollInterval: 50,
    });
    onTestFinished(() => store.close());
    const woken = vi.fn();
    store.subscribe?.(woken);
    const answers = await Promise.all(Array.from({ length: 6 }, () => store.add(eventOf())));
    expect(answers).toEqual(Array(6).fill("added"));
    const claims = await store.claim(CLAIM);
    const settles = claims.map((claim) =>
      store.settle(claim, {
        ...DONE,
        writes: [async (tx: pg.PoolClient) => void (await tx.query("SELECT 1"))],
      }),
    );
    expect(await Promise.all(settles)).toEqual(claims.map(() => true));
    await eventually(() => expect(woken.mock.calls.length).toBeGreaterThan(2));
    expect(refused).toBe(0);
  });

  test.each([
    ["cut", "own"],
    ["cut", "user's"],
    ["wait", "own"],
    ["wait", "user's"],
  ] as const)("that lets the second one of a pool %s says what to do (%s pool)", async (way, whose) => {
    const connectionString = await startProxy(single(way));
    const pool = whose === "own" ? undefined : new pg.Pool({ connectionString });
    const store = schemas.store({ ...(pool ? { pool } : { connectionString }), commandTimeout: 1000 });
    onTestFinished(async () => {
      // The pool would wait for the connections that got no answer.
      void pool?.end();
      await store.close();
    });
    await store.counts();
    const answers = await Promise.allSettled(Array.from({ length: 6 }, () => store.counts()));
    const refused = answers.filter(({ status }) => status === "rejected");
    expect(refused.length).toBeGreaterThan(0);
    for (const { reason } of refused as PromiseRejectedResult[])
      expect(reason.message).toMatch(
        whose === "own" ? /set the option maxConnections to 1$/ : /set max of your pool to 1$/,
      );
  });

  test("is not suspected if no connection gets an answer", async () => {
    const store = schemas.store({ connectionString: await startProxy(() => "wait"), commandTimeout: 500 });
    onTestFinished(() => store.close());
    const answers = await Promise.allSettled(Array.from({ length: 6 }, () => store.counts()));
    for (const { reason } of answers as PromiseRejectedResult[])
      expect(reason.message).toMatch(/gave no connection within \d+ ms$/);
  });
});
