import { realPause } from "../../async.ts";
import { runAsync, type SqlDriver, type SqlResult, type SqlStatement } from "./driver.ts";
import {
  failedMigration,
  isUsable,
  latestVersion,
  migrate,
  type Tables,
  versionOf,
  withAdvice,
} from "./sql-schema.ts";

/** How often the store looks for tables that it has just made, and the pause before it looks again, ms. */
const SEEN = { tries: 100, pause: 100 } as const;

export interface TablesOptions {
  /** Whether the first call creates and upgrades the tables. Default `true`. */
  readonly migrates?: boolean;
  /** `true` if the driver has already created the tables. Default `false`. */
  readonly isReady?: boolean;
}

/** The tables of a store, which its first call creates or upgrades. */
export class SqlTables {
  readonly #driver: SqlDriver;
  readonly #tables: Tables;
  readonly #migrates: boolean;
  #ready: Promise<void> | undefined;
  #isReady: boolean;

  constructor(driver: SqlDriver, tables: Tables, { migrates = true, isReady = false }: TablesOptions) {
    this.#driver = driver;
    this.#tables = tables;
    this.#migrates = migrates;
    this.#isReady = isReady;
  }

  /** Whether the tables are known to be up to date. */
  get areReady(): boolean {
    return this.#isReady;
  }

  /** Creates or upgrades the tables at the first call. */
  async ready(): Promise<void> {
    if (this.#isReady) return;
    // Forget a failure, so that the next call tries again.
    this.#ready ??= this.#migrated(this.version(), this.#migrates).finally(() => {
      this.#ready = undefined;
    });
    await this.#ready;
    this.#isReady = true;
  }

  /** Does what {@link ready} does, and reads the version of the tables with a driver's `execute`. */
  async readyOn(execute: (step: SqlStatement) => Promise<SqlResult>): Promise<void> {
    if (this.#isReady) return;
    const version = runAsync(versionOf(this.#tables), (step) => execute(step as SqlStatement));
    await this.#migrated(version, this.#migrates);
    this.#isReady = true;
  }

  /** Creates or upgrades the tables, also with the option `migrate: false`. */
  migrateNow(): Promise<void> {
    return this.#migrated(this.version(), true);
  }

  version(): Promise<number> {
    const driver = this.#driver;
    const read = driver.read ?? driver.transaction;
    return read.call(
      driver,
      () => versionOf(this.#tables),
      "the tables could not be read",
    ) as Promise<number>;
  }

  async #migrated(reading: Promise<number>, migrates: boolean): Promise<void> {
    const version = await reading;
    const [driver, tables] = [this.#driver, this.#tables];
    if (isUsable(tables, version, migrates)) return;
    const run = driver.migrate ?? driver.transaction;
    let hasBegun = false;
    const steps = function* () {
      hasBegun = true;
      yield* migrate(tables);
    };
    try {
      await run.call(driver, steps, failedMigration(version));
    } catch (error) {
      // Without a transaction, neither a right nor the time is what the store lacks.
      throw hasBegun ? withAdvice(error, tables, version) : error;
    }
    if (driver.decide !== undefined) await this.#seen();
  }

  /** Waits until reads see the tables. A proxy may send reads to a standby, which is behind. */
  async #seen(): Promise<void> {
    const latest = latestVersion(this.#tables.dialect);
    for (let tries = 0; tries < SEEN.tries; tries += 1) {
      // On a standby, one of the tables may be there before another one.
      const version = await this.version().catch(() => 0);
      if (version >= latest) return;
      await realPause(SEEN.pause);
    }
  }
}
