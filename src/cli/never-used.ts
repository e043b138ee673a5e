import { MissingError } from "./exit-code.ts";

// A store creates its tables or keys at its first use. A command must not create them under a mistyped name.
// The store reports all other problems, such as a missing server, package or permission.

/** ms */
const PATIENCE = 5000;

/** @throws MissingError where the database has no such schema of the store's */
export async function assertSchema(connectionString: string, schema = "stayhook"): Promise<void> {
  if ((await hasEventTable(connectionString, schema)) === false)
    throw new MissingError(`there are no events in the schema ${schema}: stayhook has never used it`);
}

/** @throws MissingError where Redis has no such keys of the store's */
export async function assertPrefix(url: string, prefix = "stayhook"): Promise<void> {
  if ((await hasMeta(url, prefix)) === false)
    throw new MissingError(`there are no events under the prefix ${prefix}: stayhook has never used it`);
}

async function hasEventTable(connectionString: string, schema: string): Promise<boolean | undefined> {
  try {
    const loaded = await import("pg");
    const { Client } = "Client" in loaded ? loaded : (loaded as { readonly default: typeof loaded }).default;
    const client = new Client({
      connectionString,
      connectionTimeoutMillis: PATIENCE,
      query_timeout: PATIENCE,
    });
    client.on("error", () => {});
    try {
      await client.connect();
      const { rows } = await client.query(
        "SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'events'",
        [schema],
      );
      return rows.length > 0;
    } finally {
      client.end().catch(() => {});
    }
  } catch {
    return undefined;
  }
}

async function hasMeta(url: string, prefix: string): Promise<boolean | undefined> {
  try {
    const { Redis } = await import("ioredis");
    const client = new Redis(url, {
      lazyConnect: true,
      connectTimeout: PATIENCE,
      commandTimeout: PATIENCE,
      retryStrategy: () => null,
    });
    client.on("error", () => {});
    try {
      await client.connect();
      return (await client.exists(`{${prefix}}:meta`)) > 0;
    } finally {
      client.disconnect();
    }
  } catch {
    return undefined;
  }
}
