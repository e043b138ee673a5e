// The claims of PostgreSQL: which records a claim leases, and where its search begins.

import { lostHistory } from "../outcomes.ts";
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

/** The time between two claims that search all due records, ms. Other claims begin at the due time that was last taken. */
const THOROUGH = 2000;
/** How far below the due time that was last taken a claim begins, ms. An `add` may commit later than another one. */
const MARGIN = 1000;

/** The steps of claims, for the tables of a schema. */
export class PostgresClaims {
  readonly #hot: HotStatements;
  readonly #schema: string;
  /** Claims begin their search at this due time, if they have the same `except` as the one that set it. */
  #since = { dueAt: 0, except: "" };
  /** The statements of claims with `except` or `only`, by their condition. */
  readonly #leases = new Map<string, Statement>();
  #thoroughAt = Number.NEGATIVE_INFINITY;

  constructor(hot: HotStatements, schema: string) {
    this.#hot = hot;
    this.#schema = schema;
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
      const claim = claimOf(event, records.get(lease)!, lease, now);
      records.delete(lease);
      return { claim, row: { history: historyOf(event), worker } };
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
    const condition = yield* searchingFor(postgresDialect, call);
    const { params } = condition;
    const sql = this.#leaseOf(eventId === undefined ? "lease" : "leaseOf", condition);
    const lease = (which: unknown) => prepared(sql, token, limit, leaseDuration, which, ...params);
    if (eventId !== undefined) return yield* lease(Buffer.from(toId(eventId)));
    let rows = yield* lease(since);
    if (since > 0 && rows[0]!.ref === null) rows = yield* lease(0);
    if (call.only !== undefined) return rows;
    // Only a claim that took all it could may begin at a later due time the next time.
    const isFull = rows.length === limit && rows[0]!.ref !== null;
    const dueAt = isFull ? Math.max(...rows.map((row) => number(row.due_at))) - MARGIN : 0;
    this.#since = { dueAt, except: nameOf(call) };
    return rows;
  }

  #leaseOf(name: "lease" | "leaseOf", condition: Condition): Statement {
    if (condition.and === "") return this.#hot[name];
    const key = name + condition.due + condition.and;
    const sql = this.#leases.get(key) ?? restrictedLease(this.#schema, name, condition);
    this.#leases.set(key, sql);
    return sql;
  }

  /**
   * Returns the due time at which a claim begins. It skips the entries of records that were taken before, because
   * PostgreSQL keeps these dead entries in the index while any client has a long transaction. It also skips the records that
   * `except` leaves out, until the beginnings change.
   */
  since(call: ClaimCall): number {
    if (call.only !== undefined) return 0;
    const now = performance.now();
    if (now - this.#thoroughAt < THOROUGH) return this.#since.except === nameOf(call) ? this.#since.dueAt : 0;
    this.#thoroughAt = now;
    return 0;
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

/** Returns a text that tells one list of excluded beginnings from another one. */
function nameOf({ except }: ClaimCall): string {
  return except === undefined ? "" : JSON.stringify(except);
}
