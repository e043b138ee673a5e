import type { SqlDialect, SqlValue } from "./driver.ts";
import { prepared } from "./driver.ts";
import type { Condition } from "./sql-beginnings.ts";
import { CONTENT, CONTENT_COLUMNS, idRange, keyRanges } from "./sql-rows.ts";

/** The number of values in an `IN` list. Lists are filled up to this length, so that the statement's text is constant. */
export const LIST = 50;
export const IN_LIST = `IN (${Array(LIST).fill("?").join(", ")})`;

export const NEW_EVENT = `id, ref, state, due_at, first_due_at, received_at, ${CONTENT}`;
const RESTORED = `attempts, failures, refusals, done_at, type, reason, history`;
/** A record that has nothing to do, no snapshot and no ledger needs no row. The condition reads only the row itself. */
export const EMPTY = "due_at IS NULL AND lease_end IS NULL AND snapshot IS NULL AND ledger IS NULL";
/** A row for each value of a list. A value that comes twice gives two rows. SQLite in workerd takes five UNIONs at most. */
const ROWS = Array(LIST).fill("(?)").join(", ");
/** The columns of an event that a rule reads. */
const LOADED =
  "seq, id, ref, state, due_at, first_due_at, received_at, timestamp, source, attempts, outages, first_outage_at, failures, refusals, replayed, done_at, type, reason";
/** An event that `remove` deletes. A processing event is one whose lease has ended. */
const REMOVABLE =
  "(state <> 'done' OR source = 'timer') AND (state <> 'processing' OR due_at <= ?) AND seq <> ?";
const ANEW =
  "attempts = 0, outages = 0, first_outage_at = NULL, failures = 0, refusals = 0, reason = NULL, done_at = NULL";

const SET_CONTENT = CONTENT_COLUMNS.map((column) => `${column} = ?`).join(", ");

const insertInto = (columns: string) =>
  `INSERT INTO stayhook_events (${columns}) VALUES (${columns.replaceAll(/\w+/g, "?")})`;

/** The statements that are the same on every database. */
const SAME = {
  eventById: "SELECT * FROM stayhook_events WHERE id = ?",
  /** The `seq` at which a slice ends. The second parameter is the length of the slice minus 1. */
  sliceEnd: "SELECT seq FROM stayhook_events WHERE seq < ? ORDER BY seq DESC LIMIT 1 OFFSET ?",
  // `state <> 'done'` lets a database use a partial index.
  oldestWaiting: `
    SELECT min(at) AS at FROM (
      SELECT min(first_due_at) AS at FROM stayhook_events WHERE state = 'pending' AND state <> 'done'
      UNION ALL SELECT min(first_due_at) FROM stayhook_events WHERE state = 'retrying' AND state <> 'done'
      UNION ALL SELECT min(first_due_at) FROM stayhook_events WHERE state = 'processing' AND state <> 'done' AND due_at <= ?
      UNION ALL SELECT min(first_due_at) FROM stayhook_events WHERE state = 'scheduled' AND due_at <= ?) AS waiting`,
  scheduledDue: "SELECT count(*) AS events FROM stayhook_events WHERE state = 'scheduled' AND due_at <= ?",
  lastReceived: "SELECT max(received_at) AS at FROM stayhook_events WHERE source = 'webhook'",
  record: "SELECT * FROM stayhook_records WHERE ref = ?",
  deleteRecord: `DELETE FROM stayhook_records WHERE ref = ? AND ${EMPTY}`,
  dueRecords: "SELECT ref FROM stayhook_records WHERE ref > ? AND due_at IS NOT NULL ORDER BY ref LIMIT ?",
  oldSnapshots: `
    SELECT ref FROM stayhook_records WHERE snapshot IS NOT NULL AND ledger IS NULL AND seen_at <= ? AND due_at IS NULL
      AND lease_end IS NULL
    ORDER BY seen_at LIMIT ?`,
  eraseRecords: `DELETE FROM stayhook_records WHERE ref ${IN_LIST}`,
  snapshotsAfter: `
    SELECT * FROM stayhook_records WHERE ref > ? AND snapshot IS NOT NULL ORDER BY ref LIMIT ?`,
  ledgersAfter: `
    SELECT ref, ledger FROM stayhook_records WHERE ref > ? AND ledger IS NOT NULL ORDER BY ref LIMIT ?`,
  // No lock: on InnoDB, it would wait for the event of an `add` that waits for the record.
  openEvents: `SELECT ${LOADED} FROM stayhook_events WHERE ref ${IN_LIST} AND due_at IS NOT NULL`,
  deleteEvents: `DELETE FROM stayhook_events WHERE seq ${IN_LIST}`,
  removeById: `DELETE FROM stayhook_events WHERE id = ? AND ref = ? AND ${REMOVABLE}`,
  removeOpenTimers: `
    DELETE FROM stayhook_events WHERE ref = ? AND due_at IS NOT NULL AND source = 'timer' AND ${REMOVABLE}`,
  oldDone: `
    SELECT seq, done_at FROM stayhook_events
    WHERE state = 'done' AND source = ? AND done_at <= ? ORDER BY done_at, seq LIMIT ?`,
  doneTimers: `
    SELECT e.seq, e.done_at, CASE WHEN r.snapshot IS NULL THEN 0 ELSE 1 END AS kept FROM stayhook_events AS e
    LEFT JOIN stayhook_records AS r ON r.ref = e.ref
    WHERE e.state = 'done' AND e.source = 'timer' AND e.done_at <= ? AND e.done_at >= ? AND (e.done_at > ? OR e.seq > ?)
    ORDER BY e.done_at, e.seq LIMIT ?`,
  oldParked: `
    SELECT seq, done_at FROM stayhook_events WHERE state = 'parked' AND done_at <= ? ORDER BY done_at, seq LIMIT ?`,
  oldParkedFor: `
    SELECT seq, done_at FROM stayhook_events
    WHERE state = 'parked' AND done_at <= ? AND reason = ? ORDER BY done_at, seq LIMIT ?`,
  deleteOld: `DELETE FROM stayhook_events WHERE seq ${IN_LIST} AND state = ? AND done_at <= ?`,
  meta: "SELECT value, set_at FROM stayhook_meta WHERE name = ?",
  updateMeta: "UPDATE stayhook_meta SET value = ?, set_at = ? WHERE name = ? AND value = ?",
  deleteMeta: "DELETE FROM stayhook_meta WHERE name = ? AND value = ?",
  firstDue: `
    SELECT * FROM stayhook_events WHERE ref = ? AND due_at IS NOT NULL AND due_at <= ? ORDER BY due_at, seq LIMIT 1`,
  firstDueAt: "SELECT min(due_at) AS at FROM stayhook_events WHERE ref = ? AND due_at IS NOT NULL",
  processingOf: "SELECT * FROM stayhook_events WHERE ref = ? AND due_at IS NOT NULL AND state = 'processing'",
  // Without its token, `alreadySettled` does not take the lost attempt for one that the lease ended.
  loseEvent: "UPDATE stayhook_events SET state = 'retrying', lease = NULL, history = ? WHERE seq = ?",
  claimEvent: `
    UPDATE stayhook_events SET state = 'processing', attempts = attempts + 1, due_at = ?, claimed_at = ?, worker = ?,
      lease = ?
    WHERE seq = ?`,
  leaseRecord:
    "UPDATE stayhook_records SET lease = ?, lease_end = ?, lease_duration = ?, due_at = ? WHERE ref = ?",
  endLease: "UPDATE stayhook_records SET lease_end = NULL, due_at = ? WHERE ref = ?",
  endLeaseWithSnapshot: `
    UPDATE stayhook_records SET snapshot = ?, sequence = ?, seen_at = ?, lease_end = NULL, due_at = ? WHERE ref = ?`,
  endLeaseWithLedger: "UPDATE stayhook_records SET ledger = ?, lease_end = NULL, due_at = ? WHERE ref = ?",
  endLeaseWithBoth: `
    UPDATE stayhook_records SET snapshot = ?, sequence = ?, seen_at = ?, ledger = ?, lease_end = NULL, due_at = ?
    WHERE ref = ?`,
  setDue: "UPDATE stayhook_records SET due_at = ? WHERE ref = ?",
  renewEvent: "UPDATE stayhook_events SET due_at = ? WHERE id = ? AND lease = ? AND state = 'processing'",
  // MySQL assigns the columns from left to right, and `due_at` needs the old `lease_end`.
  renewRecord: `
    UPDATE stayhook_records SET due_at = CASE WHEN due_at < lease_end AND due_at < ? THEN due_at ELSE ? END, lease_end = ?,
      lease_duration = ?
    WHERE ref = ? AND lease = ?`,
  held: `
    SELECT e.seq, r.sequence, CASE WHEN r.snapshot IS NULL THEN 0 ELSE 1 END AS has_snapshot
    FROM stayhook_records AS r JOIN stayhook_events AS e ON e.id = ? AND e.lease = r.lease AND e.state = 'processing'
    WHERE r.ref = ? AND r.lease = ? AND r.lease_end IS NOT NULL`,
  endedBy: "SELECT 1 AS found FROM stayhook_events WHERE id = ? AND lease = ? AND state <> 'processing'",
  endEvent: `
    UPDATE stayhook_events SET state = ?, due_at = ?, done_at = ?, attempts = ?, outages = ?, first_outage_at = ?,
      failures = ?, refusals = ?, replayed = ?, type = coalesce(?, type), reason = ?, history = ?,
      notification = CASE WHEN ? = 1 THEN NULL ELSE notification END
    WHERE seq = ?`,
  replaceContent: `UPDATE stayhook_events SET received_at = ?, first_due_at = coalesce(due_at, first_due_at), ${SET_CONTENT} WHERE seq = ?`,
  replaceEvent: `
    UPDATE stayhook_events SET state = ?, due_at = ?, first_due_at = ?, received_at = ?, ${SET_CONTENT}, replayed = 0, ${ANEW},
      history = CASE WHEN source = 'timer' THEN NULL ELSE history END
    WHERE seq = ?`,
  delayEvents: `
    UPDATE stayhook_events SET due_at = ?
    WHERE ref = ? AND due_at IS NOT NULL AND due_at < ? AND state IN ('pending', 'retrying')`,
};

/** The statements in the SQL of a dialect. */
function ownOf(dialect: SqlDialect) {
  const { forUpdate = "", skipLocked = "", byRef = "" } = dialect;
  const lockedRecords = `FROM stayhook_records ${byRef} WHERE ref ${IN_LIST} ORDER BY ref ${forUpdate}`;
  // Bind the method, because a dialect may be an instance of a class.
  const insertIgnore = (insert: string) => dialect.insertIgnore(insert);
  return {
    tableExists: dialect.tableExists,
    counts: dialect.counts ?? "SELECT state, count(*) AS events FROM stayhook_events GROUP BY state",
    lockRecord: `SELECT * FROM stayhook_records WHERE ref = ? ${forUpdate}`,
    insertRecord: insertIgnore("INSERT INTO stayhook_records (ref) VALUES (?)"),
    insertRecords: insertIgnore(`INSERT INTO stayhook_records (ref) VALUES ${ROWS}`),
    lockRecords: `SELECT ref, due_at, lease_end ${lockedRecords}`,
    loadRecords: `SELECT * ${lockedRecords}`,
    // The lock keeps out a prune, which does not lock the record.
    eventsById: `SELECT ${LOADED} FROM stayhook_events WHERE id ${IN_LIST} ${forUpdate}`,
    parkedEvents: `SELECT ${LOADED} FROM stayhook_events WHERE ref = ? AND due_at IS NULL AND state = 'parked' ${forUpdate}`,
    endedTimers: `
      SELECT ${LOADED} FROM stayhook_events WHERE ${ofRecord(dialect)} AND due_at IS NULL AND source = 'timer' ${forUpdate}`,
    endedEvents: `SELECT ${LOADED} FROM stayhook_events WHERE ${ofRecord(dialect)} AND due_at IS NULL ${forUpdate}`,
    removeEndedTimers: `
      DELETE FROM stayhook_events WHERE ${ofRecord(dialect)}
      AND state IN ('done', 'parked') AND source = 'timer' AND seq <> ?`,
    insertMeta: insertIgnore("INSERT INTO stayhook_meta (name, value, set_at) VALUES (?, ?, ?)"),
    lockEvent: `SELECT seq FROM stayhook_events WHERE seq = ? ${skipLocked}`,
    insertDueRecord: insertIgnore("INSERT INTO stayhook_records (ref, due_at) VALUES (?, ?)"),
    insertEvent: insertIgnore(insertInto(`${NEW_EVENT}, lease`)),
    restoreEvent: insertIgnore(insertInto(`${NEW_EVENT}, ${RESTORED}`)),
    ...searchesOf(dialect),
  };
}

export type Statements = Readonly<typeof SAME & ReturnType<typeof ownOf>>;

/** Returns the store's statements, with the placeholders of a dialect. */
export function statementsOf(dialect: SqlDialect): Statements {
  const all = Object.entries({ ...SAME, ...ownOf(dialect) });
  return Object.fromEntries(all.map(([name, sql]) => [name, prepared(dialect, sql)])) as Statements;
}

/** The statements that look for due records. */
function searchesOf(
  { skipLocked = "" }: SqlDialect,
  { and, due }: Pick<Condition, "and" | "due"> = { and: "", due: "due_at" },
) {
  return {
    due: "SELECT 1 AS found FROM stayhook_records WHERE due_at <= ? AND (lease_end IS NULL OR lease_end <= ?) LIMIT 1",
    // Needs only the columns of the index. So it passes by thousands of records in a tenth of the time of `claimable`.
    firstFree: `
      SELECT due_at AS found FROM stayhook_records WHERE ${due} <= ? AND (lease_end IS NULL OR lease_end <= ?)${and}
      ORDER BY ${due} LIMIT 1`,
    claimable: `
      SELECT * FROM stayhook_records WHERE ${due} <= ? AND (lease_end IS NULL OR lease_end <= ?)${and}${and && ` AND ${due} >= ?`}
      ORDER BY ${due} LIMIT ? ${skipLocked}`,
    // The first 100 rows show the leased records whose due time an `add` or a replay has lowered.
    nextDue: `
      SELECT min(at) AS at FROM (
        SELECT * FROM (
          SELECT due_at AS at FROM stayhook_records WHERE due_at IS NOT NULL AND lease_end IS NULL${and} ORDER BY ${due} LIMIT 1) AS free
        UNION ALL
        SELECT CASE WHEN lease_end > due_at THEN lease_end ELSE due_at END FROM (
          SELECT due_at, lease_end FROM stayhook_records WHERE due_at IS NOT NULL${and} ORDER BY ${due} LIMIT 100) AS first) AS next`,
  };
}

/** Returns the statement that looks for the records that meet a condition. */
export function search(
  { sql, dialect }: { readonly sql: Statements; readonly dialect: SqlDialect },
  name: "firstFree" | "claimable" | "nextDue",
  condition: Condition,
): string {
  return condition.and === "" ? sql[name] : prepared(dialect, searchesOf(dialect, condition)[name]);
}

/**
 * The condition that an event belongs to a record. MariaDB finds the events of a plain condition by their index, but
 * scans all events for a subquery in a `DELETE`.
 */
export function ofRecord({ ofRecord }: SqlDialect): string {
  return ofRecord === undefined ? "ref = ?" : `seq IN (SELECT seq FROM (${ofRecord}) AS mine)`;
}

/** Returns the statement that writes columns of the rows with the keys of a list. */
export function updateAll(
  dialect: SqlDialect,
  table: string,
  columns: readonly string[],
  key: string,
): string {
  const values = columns.map((column) => `${column} = ?`).join(", ");
  return prepared(dialect, `UPDATE ${table} SET ${values} WHERE ${key} ${IN_LIST}`);
}

const IN_ACCOUNT = Array(3).fill("ref >= ? AND ref < ?").join(" OR ");

/** Returns the condition that an event belongs to an account, and its parameters. */
export function ofAccount(dialect: SqlDialect, account: string): [condition: string, params: SqlValue[]] {
  const ranges = keyRanges(account).flat();
  const condition = `(${IN_ACCOUNT})`;
  if (dialect.ofAccount === undefined) return [condition, ranges];
  const candidates = dialect.ofAccount(IN_ACCOUNT);
  return [
    `seq IN (SELECT seq FROM (${candidates}) AS mine) AND ${condition}`,
    [...idRange(account), ...ranges, ...ranges, ...ranges],
  ];
}

/** Returns the query for the next keys of the records of an account, and its parameters. */
export function recordsOfAccount(
  dialect: SqlDialect,
  account: string,
  after: string,
  limit: number,
): [query: string, params: SqlValue[]] {
  const [condition, params] = ofAccount(dialect, account);
  const query = `
    SELECT ref FROM (
      SELECT ref FROM stayhook_records WHERE ${IN_ACCOUNT}
      UNION SELECT ref FROM stayhook_events WHERE ${condition}) AS mine
    WHERE ref > ? ORDER BY ref LIMIT ?`;
  return [prepared(dialect, query), [...keyRanges(account).flat(), ...params, after, limit]];
}

/** Caps a limit at the largest limit that every database accepts. */
export function limitOf(limit: number): number {
  return Math.min(limit, 2 ** 31 - 1);
}
