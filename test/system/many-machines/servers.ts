import { randomUUID } from "node:crypto";
import mysql from "mysql2/promise";
import pg from "pg";
import { onTestFinished, type TestContext } from "vitest";
import { mysqlUrl, startOwnMysql } from "../../support/mysql-server.ts";
import { postgresUrl, startOwnPostgres } from "../../support/postgres-server.ts";
import { deleteKeys, redisUrl, startOwnRedis } from "../../support/redis-server.ts";
import type { StorePlace } from "./store-place.ts";

export type Kind = StorePlace["kind"];

/** The kinds of store that several machines can share and whose server is available. */
export const kinds: readonly Kind[] = (
  await Promise.all([
    postgresUrl().then((url) => (url === undefined ? [] : (["postgres"] as const))),
    redisUrl().then((url) => (url === undefined && !process.env.CI ? [] : (["redis"] as const))),
    mysqlUrl().then((url) => (url === undefined ? [] : (["mysql"] as const))),
  ])
).flat();

/**
 * Makes a new schema, database or prefix on the shared server. It is deleted after the test.
 *
 * @param context - context of a concurrent test
 */
export async function newPlace(
  kind: Kind,
  { onTestFinished: finish }: Pick<TestContext, "onTestFinished"> = { onTestFinished },
): Promise<StorePlace> {
  const name = `machines_${randomUUID().replaceAll("-", "")}`;
  const url = await { postgres: postgresUrl, redis: redisUrl, mysql: mysqlUrl }[kind]();
  if (url === undefined) throw new Error(`there is no ${kind} server`);
  if (kind === "mysql") await onMysql(url, `CREATE DATABASE ${name}`);
  finish(() => {
    if (kind === "mysql") return onMysql(url, `DROP DATABASE ${name}`);
    return kind === "postgres" ? dropSchema(url, name) : deleteKeys(url, `{${name}}`);
  });
  return { kind, url, name };
}

async function onMysql(uri: string, statement: string): Promise<void> {
  const connection = await mysql.createConnection({ uri });
  await connection.query(statement);
  await connection.end();
}

async function dropSchema(connectionString: string, name: string): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  await client.query(`DROP SCHEMA IF EXISTS "${name}" CASCADE`);
  await client.end();
}

/** A server that no other test uses. */
export interface OwnServer {
  readonly place: StorePlace;
  /** Kills the server as a crash does. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

export async function ownServer(kind: Kind): Promise<OwnServer> {
  const name = "machines";
  if (kind === "postgres") {
    const server = await startOwnPostgres();
    if (!server) throw new Error("PostgreSQL is not installed");
    onTestFinished(() => server.close());
    const { connectionString: url } = server;
    return { place: { kind, url, name }, kill: () => server.stop("immediate"), start: () => server.start() };
  }
  if (kind === "mysql") {
    const server = await startOwnMysql();
    if (!server) throw new Error("MariaDB is not installed");
    onTestFinished(() => server.close());
    return {
      place: { kind, url: server.url, name: "test" },
      kill: () => server.kill(),
      start: () => server.start(),
    };
  }
  const server = await startOwnRedis();
  if (!server) throw new Error("Redis is not installed");
  onTestFinished(() => server.close());
  return { place: { kind, url: server.url, name }, kill: () => server.kill(), start: () => server.start() };
}
