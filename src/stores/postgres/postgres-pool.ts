import type { Pool } from "pg";
import { withTimeout } from "../../async.ts";
import { loadDriver } from "../load-driver.ts";

/** How long the connections of the own pool may take to end, ms. */
const END_WITHIN = 1000;

/** The clients of a pool of `pg`, as far as it shows them. */
interface Connected {
  readonly _clients: readonly { readonly connection?: { readonly stream?: { destroy(): void } } }[];
}

const loadPg = (): Promise<typeof import("pg")> =>
  loadDriver("postgresStore", "pg", "Pool", () => import("pg"));

/** @param options.limitsStatements - whether the server takes the time limit of statements as a parameter of the connection */
export async function createPool({
  connectionString,
  maxConnections,
  commandTimeout,
  limitsStatements,
}: {
  readonly connectionString: string | undefined;
  readonly maxConnections: number;
  readonly commandTimeout: number;
  readonly limitsStatements: boolean;
}): Promise<Pool> {
  const pg = await loadPg();
  const pool = new pg.Pool({
    connectionString,
    max: maxConnections,
    connectionTimeoutMillis: commandTimeout,
    query_timeout: commandTimeout,
    // The server ends a statement that nobody waits for any more.
    ...(limitsStatements && { statement_timeout: commandTimeout }),
    application_name: "stayhook",
    keepAlive: true,
    // Idle connections do not keep the process alive.
    allowExitOnIdle: true,
  });
  // Ignore the loss of an idle connection. The pool replaces the connection.
  pool.on("error", () => {});
  return pool;
}

export async function endPool(pool: Pool): Promise<void> {
  const ending = pool.end().then(
    () => true,
    () => undefined,
  );
  // Without a network, nobody answers the end of a connection.
  if ((await withTimeout(END_WITHIN, ending)) !== true)
    for (const client of (pool as unknown as Partial<Connected>)._clients ?? [])
      client.connection?.stream?.destroy();
}
