// The claims of PostgreSQL: which records a claim leases, and where its search begins.

import { lostHistory } from "../outcomes.ts";
import type { ClaimStart } from "../sql/claim-start.ts";
import type { SqlRow, SqlSteps } from "../sql/driver.ts";
import { type Condition, searchingFor } from "../sql/sql-beginnings.ts";
import {
  claimOf,
  historyOf,
  number,
  numberOrNull,
  text,
  toHistory,
  toId,
  toText,
  workerOf,
} from "../sql/sql-rows.ts";
import { limitOf } from "../sql/sql-statements.ts";
import type { Timed } from "../store-clock.ts";
import type { ClaimCall, ClaimResult } from "../store-steps.ts";
import { postgresDialect } from "./postgres-dialect.ts";
import { prepared, type Row } from "./postgres-driver.ts";
import { type HotStatements, restrictedLease, type Statement } from "./postgres-statements.ts";

/** The steps of claims, for the tables of a schema. */
export class PostgresClaims {
  readonly #hot: HotStatements;
  readonly #schema: string;
  /**
   * Where a claim begins. It skips the entries of records that were taken before, because PostgreSQL keeps these dead
   * entries in the index while any client has a long transaction. It also skips the records that `except` leaves out.
   */
  readonly #start: ClaimStart;
  /** The statements of claims with `except` or `only`, by their condition. */
  readonly #leases = new Map<string, Statement>();

  constructor(hot: HotStatements, schema: string, start: ClaimStart) {
    this.#hot = hot;
    this.#schema = schema;
    this.#start = start;
  }

  /** @param leased - gets the records that the claim leases */
  *claim(call: ClaimCall, since: number, leased: string[] = []): SqlSteps<Timed<ClaimResult>> {
    const { leaseDuration, worker, eventId } = call;
    const hot = this.#hot;
    const rows = yield* this.#lease(call, since);
    const now = number(rows[0]!.now);
    const records = new Map(rows.filter(({ ref }) => ref !== null).map((row) => [text(row.lease), row]));
    const looked = eventId === undefined && records.size < limitOf(call.limit);
    const nextDueAt = looked ? numberOrNull(rows[0]!.next_due_at) : undefined;
    if (records.size === 0) return { now, result: { claimed: [], nextDueAt } };
    const refs = [...records.values()].map(({ ref }) => text(ref));
    leased.push(...refs);
    yield* this.#expire([...records.values()].filter(({ lost_at: lostAt }) => lostAt !== null));
    const leases = [...records.keys()];
    const values = [refs, leases, now, now + leaseDuration, worker === undefined ? null : toText(worker)];
    const events =
      eventId === undefined
        ? yield* prepared(hot.take, ...values)
        : yield* prepared(hot.takeOne, ...values, Buffer.from(toId(eventId)));
    call.claimed = events.map((event) => {
      const lease = text(event.lease);
      const claim = claimOf(event, records.get(lease)!, { lease, now, worker });
      records.delete(lease);
      return claim;
    });
    const { claimed } = call;
    if (records.size === 0) return { now, result: { claimed, nextDueAt } };
    yield* this.#unlease([...records.values()]);
    return { now, result: { claimed } };
  }

  /** Leases the records that are due. The first row has the time. */
  *#lease(call: ClaimCall, since: number): SqlSteps<readonly Row[]> {
    const { token, leaseDuration, eventId } = call;
    const limit = limitOf(call.limit);
    const { except } = call;
    const condition = yield* searchingFor(postgresDialect, call, except === undefined ? 0 : since);
    const { params } = condition;
    const sql = this.#leaseOf(eventId === undefined ? "lease" : "leaseOf", condition);
    const lease = (which: unknown) => prepared(sql, token, limit, leaseDuration, which, ...params);
    if (eventId !== undefined) return yield* lease(Buffer.from(toId(eventId)));
    let rows = yield* lease(except === undefined ? since : 0);
    if (since > 0 && except === undefined && rows[0]!.ref === null) rows = yield* lease(0);
    if (call.only !== undefined) return rows;
    const { now, ref, next_due_at: next } = rows[0]!;
    if (rows.length === limit && ref !== null)
      this.#start.note(call, Math.max(...rows.map((row) => number(row.due_at))));
    // A record that somebody else has locked is due before now.
    else if (except !== undefined) this.#start.note(call, Math.min(number(now), number(next ?? now)));
    else this.#start.forget();
    return rows;
  }

  #leaseOf(name: "lease" | "leaseOf", condition: Condition): Statement {
    if (condition.and === "") return this.#hot[name];
    const key = name + condition.due + condition.and;
    const sql = this.#leases.get(key) ?? restrictedLease(this.#schema, name, condition);
    this.#leases.set(key, sql);
    return sql;
  }

  /** Gives the events of ended leases their `lost` entry. `records` are leased again. */
  *#expire(records: readonly SqlRow[]): SqlSteps<void> {
    if (records.length === 0) return;
    const rows = yield* prepared(
      this.#hot.lost,
      records.map(({ ref }) => text(ref)),
    );
    if (rows.length === 0) return;
    const histories = rows.map((row) => {
      const before = { history: historyOf(row), worker: workerOf(row) };
      return toHistory(lostHistory(before, number(row.claimed_at), number(row.due_at)));
    });
    yield* prepared(
      this.#hot.expire,
      rows.map(({ seq }) => number(seq)),
      histories,
    );
  }

  /** Ends the leases of records without a due event. */
  *#unlease(records: readonly SqlRow[]): SqlSteps<void> {
    if (records.length === 0) return;
    const refs = records.map(({ ref }) => text(ref));
    yield* prepared(
      this.#hot.unlease,
      refs,
      records.map(({ lease }) => text(lease)),
    );
    yield* prepared(this.#hot.drop, refs);
  }
}
