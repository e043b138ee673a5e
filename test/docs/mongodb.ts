// A stand-in for the `mongodb` package: the parts that docs/custom-store.md uses, with their semantics. A transaction reads
// and changes documents that others may change meanwhile. A write conflict ends it, and `withTransaction` runs it again.

import { setImmediate } from "node:timers/promises";

type Filter = Readonly<Record<string, unknown>>;
type Options = { readonly session?: ClientSession };
type Row = Record<string, unknown> & { _id: string };

interface Concerns {
  readonly readConcern: { readonly level: "majority" };
  readonly writeConcern: { readonly w: "majority"; readonly journal: boolean };
}

class MongoServerError extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** The change streams of each collection. */
const streams = new Map<unknown, Set<(row: Row | undefined) => void>>();

function changed(rows: unknown, row: Row | undefined): void {
  for (const stream of streams.get(rows) ?? []) setTimeout(stream, 0, row);
}

class WriteConflict extends Error {}

export class ClientSession {
  /** The rows that the transaction writes, and those that it found. */
  readonly writes = new Map<
    Map<string, Row>,
    Map<string, { found: Row | undefined; row: Row | undefined }>
  >();

  async withTransaction<T>(run: () => Promise<T>, { writeConcern }: Concerns): Promise<T> {
    // A transaction ignores the concerns of its collections.
    if (writeConcern.w !== "majority") throw new Error("The transaction can be lost.");
    for (;;) {
      this.writes.clear();
      try {
        const result = await run();
        await setImmediate();
        for (const [rows, writes] of this.writes)
          for (const [id, { found }] of writes)
            if (rows.get(id) !== found) throw new WriteConflict("WriteConflict");
        for (const [rows, writes] of this.writes)
          for (const [id, { row }] of writes) {
            if (row === undefined) rows.delete(id);
            else rows.set(id, row);
            changed(rows, row);
          }
        return result;
      } catch (error) {
        if (!(error instanceof WriteConflict)) throw error;
      }
    }
  }
}

export class Collection<T extends { readonly _id: string }> {
  readonly #rows: Map<string, Row>;

  constructor(rows: Map<string, Row>) {
    this.#rows = rows;
  }

  async createIndexes(_indexes: readonly { readonly key: Readonly<Record<string, 1>> }[]): Promise<void> {}

  async insertOne(document: T, options: Options = {}): Promise<void> {
    await setImmediate();
    if (this.#get(document._id, options) !== undefined)
      throw new MongoServerError(11_000, "E11000 duplicate key error");
    this.#set(document._id, structuredClone(document) as unknown as Row, options);
  }

  async replaceOne(
    filter: Filter,
    document: Omit<T, "_id">,
    options: Options = {},
  ): Promise<{ matchedCount: number }> {
    await setImmediate();
    const found = this.#get(filter._id as string, options);
    if (found === undefined || !matches(found, filter)) return { matchedCount: 0 };
    this.#set(found._id, { ...structuredClone(document), _id: found._id }, options);
    return { matchedCount: 1 };
  }

  async deleteOne(filter: Filter, options: Options = {}): Promise<{ deletedCount: number }> {
    await setImmediate();
    const found = this.#get(filter._id as string, options);
    if (found === undefined || !matches(found, filter)) return { deletedCount: 0 };
    this.#set(found._id, undefined, options);
    return { deletedCount: 1 };
  }

  async findOneAndUpdate(
    { _id }: { readonly _id: string },
    { $inc }: { readonly $inc: Readonly<Record<string, number>> },
    _options: { readonly upsert: true; readonly returnDocument: "after" },
  ): Promise<T | null> {
    await setImmediate();
    const row: Row = { ...this.#rows.get(_id), _id };
    for (const [name, by] of Object.entries($inc)) row[name] = ((row[name] as number) ?? 0) + by;
    this.#rows.set(_id, row);
    return structuredClone(row) as unknown as T;
  }

  find(filter: Filter) {
    const rows = () => [...this.#rows.values()].filter((row) => matches(row, filter));
    return new Cursor<T>(rows);
  }

  watch([{ $match }]: readonly [{ readonly $match: Filter }]) {
    const all = streams.get(this.#rows) ?? new Set();
    streams.set(this.#rows, all);
    const added: ((row: Row | undefined) => void)[] = [];
    return {
      on(name: "change" | "error", listener: () => void): void {
        if (name === "error") return;
        const stream = (row: Row | undefined) => {
          if (all.has(stream) && matches({ _id: "", fullDocument: row }, $match)) listener();
        };
        all.add(stream);
        added.push(stream);
      },
      async close(): Promise<void> {
        for (const stream of added) all.delete(stream);
      },
    };
  }

  aggregate<R>([{ $group }]: readonly [{ readonly $group: Readonly<Record<string, unknown>> }]) {
    return {
      next: async (): Promise<R | null> => {
        await setImmediate();
        if (this.#rows.size === 0) return null;
        const { _id, ...sums } = $group;
        const result: Record<string, unknown> = { _id };
        for (const [name, sum] of Object.entries(sums)) {
          const path = (sum as { readonly $sum: string }).$sum.slice(1);
          result[name] = [...this.#rows.values()].reduce(
            (total, row) => total + ((at(row, path) as number) ?? 0),
            0,
          );
        }
        return result as R;
      },
    };
  }

  #get(id: string, { session }: Options): Row | undefined {
    const written = session?.writes.get(this.#rows)?.get(id);
    return written === undefined ? this.#rows.get(id) : written.row;
  }

  #set(id: string, row: Row | undefined, { session }: Options): void {
    if (session === undefined) {
      if (row === undefined) this.#rows.delete(id);
      else this.#rows.set(id, row);
      changed(this.#rows, row);
      return;
    }
    const writes = session.writes.get(this.#rows) ?? new Map();
    session.writes.set(this.#rows, writes);
    writes.set(id, { found: writes.get(id)?.found ?? this.#rows.get(id), row });
  }
}

class Cursor<T> {
  readonly #rows: () => Row[];
  #by: string | undefined;

  constructor(rows: () => Row[]) {
    this.#rows = rows;
  }

  sort(by: Readonly<Record<string, 1>>): this {
    this.#by = Object.keys(by)[0];
    return this;
  }

  async toArray(): Promise<T[]> {
    await setImmediate();
    const by = this.#by;
    const rows = this.#rows();
    if (by !== undefined) rows.sort((a, b) => ((a[by] as string) < (b[by] as string) ? -1 : 1));
    return structuredClone(rows) as unknown as T[];
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    yield* await this.toArray();
  }
}

function at(row: Row, path: string): unknown {
  return path
    .split(".")
    .reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], row);
}

function matches(row: Row, filter: Filter): boolean {
  return Object.entries(filter).every(([path, condition]) => {
    const value = at(row, path);
    if (typeof condition !== "object" || condition === null) return value === condition;
    return Object.entries(condition).every(([operator, operand]) => {
      if (operator === "$in") return (operand as unknown[]).includes(value);
      if (operator === "$exists") return (value !== undefined) === operand;
      if (operator === "$gt") return value !== undefined && (value as string) > (operand as string);
      throw new Error(`${operator} is not in this stand-in`);
    });
  });
}

export class Db {
  readonly #collections = new Map<string, Map<string, Row>>();

  collection<T extends { readonly _id: string }>(name: string, _concerns?: Concerns): Collection<T> {
    const rows = this.#collections.get(name) ?? new Map<string, Row>();
    this.#collections.set(name, rows);
    return new Collection<T>(rows);
  }

  async command(_command: { readonly hello: 1 }): Promise<{ readonly localTime: Date }> {
    return { localTime: new Date() };
  }
}

export class MongoClient {
  readonly #dbs = new Map<string, Db>();

  db(name: string): Db {
    const db = this.#dbs.get(name) ?? new Db();
    this.#dbs.set(name, db);
    return db;
  }

  async withSession<T>(run: (session: ClientSession) => Promise<T>): Promise<T> {
    return run(new ClientSession());
  }
}
