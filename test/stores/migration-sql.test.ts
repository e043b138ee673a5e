import { DatabaseSync } from "node:sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { migrationSql as mysqlSql } from "../../src/stores/mysql/index.ts";
import { mysqlDialect } from "../../src/stores/mysql/mysql-dialect.ts";
import { migrationSql as postgresSql } from "../../src/stores/postgres/index.ts";
import { postgresDialect } from "../../src/stores/postgres/postgres-dialect.ts";
import type { SqlMigration } from "../../src/stores/sql/driver.ts";
import { migrationSql as sqliteSql, sqliteStore } from "../../src/stores/sqlite/index.ts";
import { sqliteDialect } from "../../src/stores/sqlite/sqlite-dialect.ts";
import { eventOf } from "./event.ts";
import { createFiles } from "./sqlite/support.ts";

const files = createFiles();

describe.each([
  ["sqlite", sqliteSql, sqliteDialect],
  ["postgres", postgresSql, postgresDialect],
  ["mysql", mysqlSql, mysqlDialect],
])("migrationSql of stayhook/%s", (_, migrationSql, { migrations }) => {
  /** Gives the tables two more versions. */
  function addVersions(): void {
    const list = migrations as SqlMigration[];
    list.push(
      { statements: ["ALTER TABLE stayhook_events ADD COLUMN one INT"], note: "Run it at night." },
      { statements: ["ALTER TABLE stayhook_events ADD COLUMN two INT"] },
    );
    onTestFinished(() => void list.splice(-2));
  }

  test("creates the tables, and is empty for tables of this version or a newer one", () => {
    expect(migrationSql()).toBe(migrationSql({ from: 0, to: 3 }));
    expect(migrationSql()).toMatch(/CREATE TABLE .*events[\s\S]*INSERT INTO \S*meta .*'schema', '3'/);
    for (const from of [3, 4, 99]) expect(migrationSql({ from })).toBe("");
  });

  test("returns exactly the statements between two versions, each with the version that it notes", () => {
    addVersions();
    const [one, two] = [migrationSql({ from: 3, to: 4 }), migrationSql({ from: 4, to: 5 })];
    expect(one).toMatch(/^-- Run it at night\.\nALTER TABLE .*one INT;\nUPDATE .*'4'.*'3';\n$/);
    expect(two).toMatch(/^ALTER TABLE .*two INT;\nUPDATE .*'5'.*'4';\n$/);
    expect(migrationSql({ from: 3 })).toBe(one + two);
    expect(migrationSql()).toBe(migrationSql({ to: 3 }) + one + two);
    expect(migrationSql({ from: 5, to: 4 })).toBe("");
  });

  test.each([
    [{ from: 2 }, "from: must be 0 if there are no tables"],
    [{ from: -2 }, "from: must be 0"],
    [{ from: "2" }, "from: must be 0"],
    [{ from: 3.5 }, "from: must be 0"],
    [{ to: 4 }, "to: must be a schema version that this version of stayhook knows, from 3 to 3"],
    [{ to: 0 }, "to: must be a schema version"],
    [{ form: 2 }, "form"],
  ])("rejects %j", (options, message) => {
    expect(() => migrationSql(options as object)).toThrow(message);
  });
});

describe("sqliteStore with migrate: false", () => {
  test("throws with the call and the statements, and creates no file", () => {
    const path = files.path();
    const open = () => sqliteStore(path, { migrate: false });
    expect(open).toThrow(
      "There are no tables in the file, and this version of stayhook needs schema version 3",
    );
    expect(open).toThrow("Run the SQL that migrationSql({ from: 0, to: 3 }) returns");
    expect(open).toThrow("CREATE TABLE stayhook_events; CREATE INDEX stayhook_events_due");
    expect(() => new DatabaseSync(path, { readOnly: true })).toThrow("unable to open");
  });

  test("opens tables that migrationSql has made", async () => {
    const path = files.path();
    const db = new DatabaseSync(path);
    db.exec(`BEGIN IMMEDIATE; ${sqliteSql()} COMMIT`);
    db.close();
    const store = sqliteStore(path, { migrate: false });
    expect(await store.add(eventOf())).toBe("added");
    expect(await store.schema?.()).toEqual({ version: 3, expected: 3 });
    await store.close();
  });
});
