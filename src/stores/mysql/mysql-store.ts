import type { PoolConnection } from "mysql2/promise";
import { select } from "../sql/driver.ts";
import { number } from "../sql/sql-rows.ts";
import { SqlStore } from "../sql/sql-store.ts";
import type { StoreProblem } from "../store-problem.ts";

/** Also knows which settings of the server may lose events. */
export class MysqlStore extends SqlStore<PoolConnection> {
  declare readonly transactional: true;

  protected override async risks(): Promise<readonly StoreProblem[]> {
    const [row] = await this.read(function* () {
      return yield* select(
        "SELECT @@GLOBAL.innodb_flush_log_at_trx_commit AS flush, @@GLOBAL.read_only AS fixed",
      );
    });
    const told: StoreProblem[] = [];
    if (number(row!.flush) !== 1)
      told.push({
        fails: false,
        detail: `innodb_flush_log_at_trx_commit is ${number(row!.flush)}, so a crash may lose the events of the last second. Set it to 1.`,
      });
    if (Number(row!.fixed) !== 0)
      told.push({ fails: true, detail: "The server is read-only. Give the store the primary." });
    return told;
  }
}
