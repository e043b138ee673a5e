import type { PoolConnection } from "mysql2/promise";
import type { Addition, Settlement } from "../outcomes.ts";
import { type SqlSteps, select } from "../sql/driver.ts";
import { type ClaimSearch, claimEvents } from "../sql/sql-claims.ts";
import type { Operation } from "../sql/sql-records.ts";
import { number } from "../sql/sql-rows.ts";
import { SqlStore } from "../sql/sql-store.ts";
import type { Timed } from "../store-clock.ts";
import type { StoreProblem } from "../store-problem.ts";
import type { AddAnswer, ClaimCall, ClaimResult, Settled } from "../store-steps.ts";
import type { ClaimedEvent } from "../stored-event.ts";
import { addTogether, claimTogether, renewTogether, settleTogether } from "./mysql-groups.ts";

/** Writes the events of a group together. Also knows which settings of the server may lose events. */
export class MysqlStore extends SqlStore<PoolConnection> {
  declare readonly transactional: true;

  protected override adding(operation: Operation, additions: readonly Addition[]): SqlSteps<AddAnswer[]> {
    return addTogether(operation, additions);
  }

  protected override claiming(
    operation: Operation,
    call: ClaimCall,
    search?: ClaimSearch,
  ): SqlSteps<Timed<ClaimResult>> {
    return claimEvents(operation, call, { ...search, take: claimTogether });
  }

  protected override renewingAll(
    operation: Operation,
    claims: readonly ClaimedEvent[],
    leaseDuration: number,
  ): SqlSteps<string[]> {
    return renewTogether(operation, claims, leaseDuration);
  }

  protected override settling(
    operation: Operation,
    settlements: readonly Settlement<never>[],
  ): SqlSteps<Settled[]> {
    return settleTogether(operation, settlements);
  }

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
