import { onTestFinished } from "vitest";
import type { WorkerPlace } from "../../stores/every/stores.ts";
import { startOwnMysql } from "../../support/mysql-server.ts";
import { startOwnPostgres } from "../../support/postgres-server.ts";
import { startOwnRedis } from "../../support/redis-server.ts";

/** A server that no other test uses. */
export interface OwnServer {
  readonly place: WorkerPlace;
  /** Kills the server as a crash does. */
  kill(): Promise<unknown>;
  start(): Promise<unknown>;
}

export async function ownServer(name: string): Promise<OwnServer> {
  if (name === "PostgreSQL") {
    const server = existing(name, await startOwnPostgres());
    const place = { name, url: server.connectionString, schema: "machines" };
    return { place, kill: () => server.stop("immediate"), start: () => server.start() };
  }
  const server = existing(name, await (name === "MySQL" ? startOwnMysql() : startOwnRedis()));
  const url = name === "MySQL" ? Object.assign(new URL(server.url), { pathname: "/test" }).href : server.url;
  return {
    place: { name, url, schema: "machines" },
    kill: () => server.kill(),
    start: () => server.start(),
  };
}

function existing<T extends { close(): Promise<unknown> }>(name: string, server: T | undefined): T {
  if (!server) throw new Error(`${name} is not installed`);
  onTestFinished(async () => void (await server.close()));
  return server;
}
