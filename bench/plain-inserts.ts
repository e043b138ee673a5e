// A reasonable implementation without this package: plain inserts, many in one transaction, and then the answer.
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import pg from "pg";
import { servers } from "./open-store.ts";

interface Row {
  readonly id: string;
  readonly text: string;
}

interface Inserts {
  /** Resolves when the row is on the disk. */
  insert(id: string, text: string): Promise<void>;
  close(): Promise<unknown> | unknown;
}

export function sqliteInserts(): Inserts {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-bench-"));
  const db = new DatabaseSync(join(directory, "events.db"));
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  db.exec("CREATE TABLE events (id TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID");
  const statement = db.prepare("INSERT INTO events VALUES (?, ?) ON CONFLICT DO NOTHING");
  const insert = grouped(async (rows) => {
    db.exec("BEGIN IMMEDIATE");
    for (const { id, text } of rows) statement.run(id, text);
    db.exec("COMMIT");
  });
  const close = (): void => {
    db.close();
    rmSync(directory, { recursive: true });
  };
  return { insert, close };
}

export async function postgresInserts(): Promise<Inserts> {
  const pool = new pg.Pool({ connectionString: servers().postgres, max: 2 });
  const table = `stayhook_bench_${randomBytes(4).toString("hex")}`;
  await pool.query(`CREATE TABLE ${table} (id text PRIMARY KEY, text text)`);
  const sql = `INSERT INTO ${table} SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING`;
  const insert = grouped((rows) => pool.query(sql, [rows.map(({ id }) => id), rows.map(({ text }) => text)]));
  const close = async (): Promise<void> => {
    await pool.query(`DROP TABLE ${table}`);
    await pool.end();
  };
  return { insert, close };
}

/** Groups the rows that arrive while the last group is being written. */
function grouped(write: (rows: readonly Row[]) => Promise<unknown>): Inserts["insert"] {
  let waiting: (Row & { readonly resolve: () => void; readonly reject: (error: unknown) => void })[] = [];
  let isWriting = false;
  const run = async (): Promise<void> => {
    while (waiting.length > 0) {
      const group = waiting;
      waiting = [];
      try {
        await write(group);
        for (const { resolve } of group) resolve();
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    isWriting = false;
  };
  return (id, text) =>
    new Promise((resolve, reject) => {
      waiting.push({ id, text, resolve, reject });
      if (isWriting) return;
      isWriting = true;
      setImmediate(run);
    });
}
