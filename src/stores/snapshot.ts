/** A value that a snapshot can keep. */
export type TrackedValue = string | number | boolean | null;

/** The status and the tracked fields of a record at one time. */
export interface Snapshot {
  /** The status of the record when it was read. */
  readonly status: string;
  /** The tracked fields by name. */
  readonly fields: Readonly<Record<string, TrackedValue>>;
  /**
   * JSON with the stay that the user's side knows, for `event.stayChange`, and with the platform's form of fields that
   * `track` gave another one. It is absent if `status` and `fields` say the same.
   */
  readonly known?: string | undefined;
}

/** The snapshot that a store keeps of a booking or listing. */
export interface RecordSnapshot {
  /** The record: `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
  /** The snapshot that the record's last handled event or `EventStore.learn` wrote. */
  readonly snapshot: Snapshot;
  /** The number of the snapshot. It starts at 1, and rises by 1 with each change of the record. */
  readonly sequence: number;
  /** When the snapshot was last written or found unchanged. */
  readonly seenAt: Date;
  /** The record's ledger. It is absent if the record has none. */
  readonly ledger?: string | undefined;
}

/** The ledger of a record: a text, such as what was done for a stay. A record may have a ledger without a snapshot. */
export interface RecordLedger {
  /** The record: `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
  /** The text that the last outcome with a `ledger` set. It is not empty. */
  readonly ledger: string;
}
