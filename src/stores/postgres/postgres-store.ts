import type { ClientBase, PoolClient } from "pg";
import { createSlots, type Slots } from "../../async.ts";
import { Log } from "../../logger.ts";
import { ANSWER_WITHIN, LockedError } from "../call-errors.ts";
import type { EventStore, Write } from "../event-store.ts";
import { type Addition, additionOf, type Settlement } from "../outcomes.ts";
import { type SqlRow, type SqlValue, select } from "../sql/driver.ts";
import { LOCKED_FOR } from "../sql/sql-claims.ts";
import { keyOf, knownAnswer, LeaseLost } from "../sql/sql-queue.ts";
import { fromId, number, numberOrNull, text, toId } from "../sql/sql-rows.ts";
import { failing, SqlStore } from "../sql/sql-store.ts";
import type { HotSteps } from "../sql/sql-trial.ts";
import type { Timed } from "../store-clock.ts";
import type { AddOptions } from "../store-options.ts";
import type { StoreProblem } from "../store-problem.ts";
import type { AddAnswer, ClaimCall, Claimed, ClaimResult, Settled } from "../store-steps.ts";
import type { ClaimedEvent, NewEvent } from "../stored-event.ts";
import {
  assertUsable,
  checkSql,
  isSequenceBehind,
  risksOf,
  sequenceError,
  sequenceSql,
} from "./postgres-checks.ts";
import { PostgresClaims } from "./postgres-claims.ts";
import { dialectIn, inSchema } from "./postgres-dialect.ts";
import { type PostgresDriver, prepared, type Row } from "./postgres-driver.ts";
import { additionJson, idsOf, settlementJson } from "./postgres-rows.ts";
import { COMMIT_WITHIN, type HotStatements, hotStatements, type Statement } from "./postgres-statements.ts";

/** How long a statement waits for a locked record, ms. Then each of its calls waits `alone`. */
const PATIENCE = { together: 250, alone: 5000 } as const;

/** Runs a statement on a connection of the caller. */
export type Run = (text: string, values: unknown[]) => Promise<Row[]>;

export interface StoreOptions {
  readonly schema: string;
  readonly channel: string;
  /** Whether the first call creates and upgrades the tables. */
  readonly migrates: boolean;
  /** How many `event.atomically` transactions may run at a time. Other calls use the remaining connections. */
  readonly writesAtOnce: number;
}

/** Adds events in the caller's own transaction. */
export interface TransactionStore {
  /** Does the same as {@link EventStore.add}, without `replace`. The event is recorded when the caller commits. */
  add(event: NewEvent, options?: Pick<AddOptions, "dueIn">): Promise<"added" | "duplicate" | "conflict">;
}

/** The store that {@link postgresStore} returns. `event.atomically` gives your function a client of `pg`. */
export interface PostgresStore extends EventStore<PoolClient> {
  /** The store calls the functions passed to `event.atomically` in the transaction that ends the event. */
  readonly transactional: true;
  /**
   * Returns a store whose `add` runs in the open transaction of `client`. Keep the transaction short. From `add` to
   * the end of the transaction, the store can neither record nor handle another event of the same booking or listing.
   * A running attempt for this booking or listing must wait to renew its lease. If this wait exceeds 5 s or a third
   * of `leaseDuration`, the attempt loses its lease.
   */
  with(client: ClientBase): TransactionStore;
  /**
   * Creates or upgrades the tables, also with `migrate: false`. This call is optional: without that option, the first
   * call of any other method does the same.
   */
  migrate(): Promise<void>;
}

/** Overrides the calls of the hot path with statements for groups. The {@link SqlStore} does the rest. */
export class PgStore extends SqlStore<PoolClient> implements PostgresStore {
  declare readonly transactional: true;
  readonly #driver: PostgresDriver;
  readonly #options: StoreOptions;
  readonly #hot: HotStatements;
  readonly #waiting: Slots;
  readonly #claims: PostgresClaims;
  #isChecked = false;

  constructor(driver: PostgresDriver, options: StoreOptions) {
    const { schema, migrates } = options;
    const tables = {
      dialect: dialectIn(schema),
      place: `the schema ${schema}`,
      elsewhere: `set the option schema to another name, or drop the schema ${schema}`,
      migrationCall: (from: number, to: number) =>
        `migrationSql({ schema: ${JSON.stringify(schema)}, from: ${from}, to: ${to} })`,
    };
    super(driver, tables, { migrates, writesAtOnce: options.writesAtOnce });
    this.#driver = driver;
    this.#options = options;
    this.#hot = hotStatements(options.schema);
    this.#claims = new PostgresClaims(this.#hot, options.schema, this.start);
    this.#waiting = createSlots(options.writesAtOnce);
  }

  async migrate(): Promise<void> {
    this.assertOpen();
    await this.tables.migrateNow();
  }

  protected override risks(): Promise<readonly StoreProblem[]> {
    return risksOf((sql) => this.read(() => select(sql)));
  }

  protected override tryOut(): Promise<void> {
    return this.#numbered(() => super.tryOut());
  }

  protected override hotSteps(): HotSteps {
    const run = (statement: Statement, values: readonly unknown[]) =>
      prepared(statement, ...values, `${PATIENCE.together}ms`);
    const [{ add }, claim] = [this.#hot, (call: ClaimCall) => this.#claims.claim(call, 0)];
    const settling = (settlements: readonly Settlement<never>[]) => this.#settling(settlements);
    return {
      *add(additions) {
        const rows = yield* run(add, [JSON.stringify(additions.map(additionJson)), additions.length]);
        return rows.map(() => "added");
      },
      claim,
      *settle(settlements) {
        const rows = yield* run(...settling(settlements));
        return rows.map(({ more }) => ({ held: true, more: more === true }));
      },
    };
  }

  /** Also checks, once, that rows arrive as they are, and that no policy hides them: the tables would seem to be empty. */
  protected override async ready(): Promise<void> {
    if (this.tables.areReady) return;
    if (!this.#isChecked) {
      const { schema } = this.#options;
      const sql = checkSql(schema);
      assertUsable(schema, await this.#driver.read(() => select(sql), "the tables could not be read"));
      this.#isChecked = true;
    }
    await super.ready();
  }

  with(client: ClientBase): TransactionStore {
    const hot = this.#hot;
    const run: Run = async (text, values) => (await client.query<Row>({ text, values })).rows;
    return {
      add: async (event, { dueIn } = {}) => {
        // If several callers hold all connections of the pool, none of them gets another one.
        await this.tables.readyOn(async ({ sql, params }) => {
          const rows = await run(inSchema(this.#options.schema)(sql), [...params]);
          return { rows, changes: 0 };
        });
        const addition = additionOf(event, { dueIn });
        const added = await run(hot.add.text, [JSON.stringify([additionJson(addition, 0)]), 1, null]);
        if (added.length === 0)
          return answerOf(addition, await run(hot.known.text, [idsOf([event.eventId])]));
        // PostgreSQL sends the message when the caller commits. The empty text is no process's own payload.
        await run("SELECT pg_notify($1, '')::text", [this.#options.channel]);
        return "added";
      },
    };
  }

  protected override async doAdd(additions: readonly Addition[]): Promise<AddAnswer[]> {
    const values = [JSON.stringify(additions.map(additionJson)), additions.length];
    const rows = await this.#numbered(() =>
      this.#patiently(failing.add, this.#hot.add, values, additions.length, ANSWER_WITHIN),
    );
    const added = new Set(rows.map(({ n }) => number(n)));
    if (added.size === additions.length) return additions.map(() => "added");
    return this.#addKnown(additions, added);
  }

  /** Answers for the events that were not `added`, because their ids are known. */
  async #addKnown(additions: readonly Addition[], added: ReadonlySet<number>): Promise<AddAnswer[]> {
    const others = additions.filter((_, index) => !added.has(index));
    // A new statement, because the other one does not see what others have committed meanwhile.
    const known = await this.#query(failing.add, this.#hot.known, [
      idsOf(others.map(({ event }) => event.eventId)),
    ]);
    return Promise.all(
      additions.map(async (addition, index) => {
        if (added.has(index)) return "added";
        const answer = answerOf(addition, known);
        if (answer !== "duplicate" || addition.replace === undefined) return answer;
        return (await super.doAdd([addition]))[0]!;
      }),
    );
  }

  /**
   * Leases records, and marks their events in a second statement: only a younger snapshot shows what others have
   * committed before the lease. Both are one transaction, so that nobody sees a record that is leased without its event.
   */
  protected override async doClaim(call: ClaimCall): Promise<Timed<ClaimResult>> {
    await this.ready();
    try {
      return await this.#claimOnce(call, this.start.of(call));
    } catch (error) {
      if (!(error instanceof LockedError) || call.eventId !== undefined) throw error;
      return this.#claimAround(call);
    }
  }

  /** If the claim cannot even lease, somebody has locked a table, such as a newer version that adds a column. It then waits. */
  async #claimOnce(call: ClaimCall, since: number, leased: string[] = []): Promise<Timed<ClaimResult>> {
    const claim = () => this.#claims.claim(call, since, leased);
    try {
      return await this.#driver.transaction(claim, failing.claim, { lockTimeout: PATIENCE.together });
    } catch (error) {
      if (!(error instanceof LockedError) || leased.length > 0) throw error;
      return this.#driver.transaction(claim, failing.claim, { lockTimeout: PATIENCE.alone });
    }
  }

  /** Claims one record after the other, and passes by those that have a row that somebody else has locked. */
  async #claimAround(call: ClaimCall): Promise<Timed<ClaimResult>> {
    const claimed: Claimed[] = [];
    for (let n = 0; ; n += 1) {
      const leased: string[] = [];
      const one: ClaimCall = { ...call, limit: 1, token: `${call.token}.${n}`, claimed: [] };
      try {
        const { now, result } = await this.#claimOnce(one, 0, leased);
        claimed.push(...result.claimed);
        if (result.claimed.length === 0 || claimed.length >= call.limit) return { now, result: { claimed } };
      } catch (error) {
        call.claimed = [...claimed, ...one.claimed];
        if (!(error instanceof LockedError) || leased.length === 0) throw error;
        await this.#query(failing.claim, this.#hot.postpone, [leased, LOCKED_FOR]);
      }
    }
  }

  /** Waits for claims that have not ended yet: until then, `settle` would not see them. */
  protected override async doFindLost(calls: readonly ClaimCall[]): Promise<readonly Claimed[]> {
    const claims = await super.doFindLost(calls);
    if (claims.length > 0)
      await this.#query(failing.claim, this.#hot.lock, [claims.map(({ claim }) => keyOf(claim))]);
    return claims;
  }

  protected override async renewing(
    claims: readonly ClaimedEvent[],
    leaseDuration: number,
    patience: number,
  ): Promise<string[]> {
    const rows = await this.#query(failing.renew, this.#hot.renew, [
      idsOf(claims.map(({ eventId }) => eventId)),
      claims.map(keyOf),
      claims.map(({ lease }) => lease),
      leaseDuration,
      // PostgreSQL takes 0 for a wait without a limit.
      `${Math.ceil(Math.max(patience, PATIENCE.together))}ms`,
    ]);
    return rows.map(({ lease }) => text(lease));
  }

  protected override async doSettle(settlements: readonly Settlement<PoolClient>[]): Promise<Settled[]> {
    const [first] = settlements;
    if (first !== undefined && first.writes.length > 0) return [await this.#settleWithWrites(first)];
    const [statement, values] = this.#settling(settlements);
    const rows = await this.#numbered(() =>
      this.#patiently(failing.settle, statement, values, settlements.length),
    );
    const more = new Map(rows.map((row) => [number(row.n), row.more === true]));
    return Promise.all(
      settlements.map(async ({ claim }, index) => {
        const held = more.has(index) || (await this.#stateOf(claim)) === "settled";
        return { held, more: more.get(index) ?? held };
      }),
    );
  }

  /** Returns the statement that ends the attempts, and its values without the patience. */
  #settling(settlements: readonly Settlement<never>[]): [statement: Statement, values: unknown[]] {
    const values = [JSON.stringify(settlements.map(settlementJson)), settlements.length];
    const isPlain = settlements.every(
      ({ delay, remove, additions }) => delay === undefined && remove === undefined && additions.length === 0,
    );
    if (isPlain) return [this.#hot.settle, values];
    const additions = settlements.flatMap(({ additions }, n) =>
      additions.map((addition) => additionJson(addition, n)),
    );
    return [this.#hot.settleFurther, [...values, JSON.stringify(additions), additions.length]];
  }

  async #stateOf({ eventId, lease }: ClaimedEvent): Promise<unknown> {
    const values = [Buffer.from(toId(eventId)), lease];
    return (await this.#query(failing.settle, this.#hot.stateOfLease, values))[0]?.lease;
  }

  /** Runs the writes before the record is locked, so that an `add` does not wait for them. */
  async #settleWithWrites(settlement: Settlement<PoolClient>): Promise<Settled> {
    const { claim, writes } = settlement;
    await this.ready();
    const { stateOfLease } = this.#hot;
    const [statement, values] = this.#settling([settlement]);
    const settle = () =>
      this.#driver.transaction<Settled>(function* () {
        const [state] = yield* select(stateOfLease.text, toId(claim.eventId), claim.lease);
        if (state?.lease !== "held") return settled(state?.lease);
        yield { writes: writes as readonly Write<never>[] };
        yield* select(`SELECT set_config('idle_in_transaction_session_timeout', '${COMMIT_WITHIN}', true)`);
        const [row] = yield* select(statement.text, ...(values as SqlValue[]), `${PATIENCE.alone}ms`);
        if (row === undefined) throw new LeaseLost();
        return { held: true, more: row.more === true };
      }, failing.settle);
    try {
      return await this.writing.run(settle);
    } catch (error) {
      if (!(error instanceof LeaseLost)) throw error;
      // An earlier call of this settlement may have ended the attempt while the writes of this one ran.
      return settled(await this.#stateOf(claim));
    }
  }

  /** Runs a statement that numbers events. Sets the sequence right if it is behind its table, and runs it again. */
  async #numbered<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      if (!isSequenceBehind(error)) throw error;
      const { schema } = this.#options;
      const sql = sequenceSql(schema);
      try {
        await this.#driver.transaction(() => select(sql), "the sequence of the events could not be set");
      } catch (cause) {
        throw sequenceError(schema, cause);
      }
      new Log().warn(
        `postgresStore: the sequence of the events in the schema ${schema} was behind its table, as after a restore or a logical replication. It is right now`,
      );
      return await run();
    }
  }

  async #query(what: string, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    await this.ready();
    return this.#driver.query(what, statement, values);
  }

  /**
   * Runs a statement whose last parameter is the time that it waits for a lock. If it has only one call, it waits again,
   * for longer. Few statements wait at a time, so that one locked record leaves connections for others.
   */
  async #patiently(
    what: string,
    statement: Statement,
    values: readonly unknown[],
    calls: number,
    answerWithin?: number,
  ): Promise<Row[]> {
    await this.ready();
    const run = (patience: number) =>
      this.#driver.query(what, statement, [...values, `${patience}ms`], answerWithin);
    try {
      return await run(PATIENCE.together);
    } catch (error) {
      if (calls > 1 || !(error instanceof LockedError)) throw error;
      return this.#waiting.run(() => run(PATIENCE.alone));
    }
  }

  /** Reads only the newest events, because an index on the time of receipt would cost each change of an event. */
  protected override doLastReceivedAt(): Promise<number | undefined> {
    const { text } = this.#hot.lastReceived;
    return this.read(function* () {
      const [row] = yield* select(text);
      return numberOrNull(row!.at) ?? undefined;
    });
  }
}

/** What a repeated settlement did, by the state of its claim's lease. */
function settled(lease: unknown): Settled {
  const held = lease === "settled";
  return { held, more: held };
}

/** @param known - the rows of the ids that the store had already. An event that was deleted since has no row */
function answerOf(addition: Addition, known: readonly SqlRow[]): "added" | "duplicate" | "conflict" {
  const row = known.find(({ id }) => fromId(id) === addition.event.eventId);
  return row === undefined ? "duplicate" : knownAnswer(addition, row);
}
