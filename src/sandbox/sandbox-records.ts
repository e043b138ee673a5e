// What the sandbox's bookings and listings share: their fields, their moves from status to status, and their storage.

import { InvalidArgumentError, type Issue } from "../errors.ts";
import type { Status, StatusMove } from "../models/statuses.ts";

export const dayMs = 86_400_000;

export const toDate = (time: number): string => new Date(time).toISOString().slice(0, 10);

export function throwInvalid(message: string, ...path: Issue["path"]): never {
  throw new InvalidArgumentError({ path, message });
}

/** Copies a value by JSON, so that callers cannot change the sandbox's own objects. */
export function copy<T>(value: T, name = "a value passed to the sandbox"): T {
  try {
    return JSON.parse(JSON.stringify(value)) as T;
  } catch (error) {
    return throwInvalid(`${name} cannot be written as JSON: ${(error as Error).message}`);
  }
}

export type Fields = Record<string, unknown>;

/** Checks and copies the fields that a caller gave. Fields that are `undefined` are left out. */
function toFields(fields: unknown): Fields {
  if (fields === undefined) return {};
  if (typeof fields !== "object" || fields === null || Array.isArray(fields))
    throwInvalid("the fields of a booking or listing must be an object");
  return copy(fields as Fields, "the fields of a booking or listing");
}

export function withoutStatus(fields: unknown): Fields {
  if ((fields as Fields | undefined)?.status !== undefined)
    throwInvalid("can be given only to create(), which makes a record with any status", "status");
  return toFields(fields);
}

/** Separates `status` from the other fields of `create`. */
export function takeStatus(fields: unknown): [status: string, rest: Fields] {
  const { status, ...rest } = toFields(fields);
  if (typeof status !== "string" || status === "")
    throwInvalid("must be a string that is not empty", "status");
  return [status, rest];
}

/** A status change. `from` tells whether a status allows the change, and `to` is the new status. */
export interface Move extends Pick<StatusMove, "from" | "help"> {
  readonly to: string;
}

type MoveOf<Table extends readonly Status[]> = Extract<Table[number], { readonly move: StatusMove }>["move"];

/** Returns the moves of a table by their verbs. */
export function movesOf<const Table extends readonly Status[]>(
  table: Table,
): Readonly<Record<MoveOf<Table>["verb"], Move>> {
  const moves = table.flatMap(({ name: to, move }) =>
    move ? [[move.verb, { from: move.from, to, help: move.help }]] : [],
  );
  return Object.fromEntries(moves);
}

/** Makes an object with a member for each verb. */
export function forEachVerb<Verb extends string, T>(
  moves: Readonly<Record<Verb, Move>>,
  make: (verb: Verb, move: Move) => T,
): Readonly<Record<Verb, T>> {
  const verbs = Object.keys(moves) as Verb[];
  return Object.fromEntries(verbs.map((verb) => [verb, make(verb, moves[verb])])) as Record<Verb, T>;
}

/** Returns the names of the moves that the status allows. */
export function possibleMoves<Name extends string>(
  moves: Readonly<Record<Name, Move>>,
  status: string,
): Name[] {
  return (Object.keys(moves) as Name[]).filter((name) => moves[name].from(status));
}

/** Stores the bookings or the listings by id. The methods return copies of the records. */
export function createRecords<
  Id extends string | number,
  R extends { readonly status: string },
  Name extends string,
>(
  kind: "booking" | "listing",
  idField: string & keyof R,
  moves: Readonly<Record<Name, Move>>,
  given: readonly R[],
  changed: () => void,
) {
  const records = new Map(given.map((record) => [record[idField] as Id, record]));
  const known = (id: Id): R => records.get(id) ?? throwInvalid(`there is no ${kind} ${String(id)}`, idField);
  const put = (id: Id, record: R): R => {
    records.set(id, record);
    changed();
    return copy(record);
  };
  const change = (id: Id, fields: object): R => put(id, { ...known(id), ...fields });
  return {
    /** Calls `draw` until it returns an id that no record has. */
    freeId(draw: () => Id): Id {
      for (;;) {
        const id = draw();
        if (!records.has(id)) return id;
      }
    },
    get: (id: Id): R | undefined => (records.has(id) ? copy(known(id)) : undefined),
    list: (): R[] => [...records.values()].map((each) => copy(each)),
    add(id: Id, record: R): R {
      if (records.has(id)) throwInvalid(`there is already a ${kind} ${id}`, idField);
      return put(id, record);
    },
    change,
    /** @throws InvalidArgumentError if the status does not allow the move. The message names the possible moves. */
    move(id: Id, name: Name): R {
      const { status } = known(id);
      const possible = possibleMoves(moves, status);
      if (!possible.includes(name))
        throwInvalid(
          `cannot ${name} ${kind} ${id}, which is ${status}. ` +
            (possible.length === 0 ? "This status is final" : `Possible changes: ${possible.join(", ")}`),
          "status",
        );
      return change(id, { status: moves[name].to });
    },
  };
}

/** Keeps the newest items of a list, so that a sandbox that runs for days does not fill the memory. */
export class Recent<T> {
  readonly #items: T[] = [];
  readonly #max: number;

  constructor(max = 100_000) {
    this.#max = max;
  }

  add(item: T): void {
    this.#items.push(item);
    // Remove old items in blocks. To remove one item of a long array at each `add` would be slow.
    if (this.#items.length >= 2 * this.#max) this.#items.splice(0, this.#items.length - this.#max);
  }

  /** Returns the last `limit` items that match, the oldest first. */
  list(limit: number = this.#max, matches?: (item: T) => boolean): T[] {
    const items = matches ? this.#items.filter(matches) : this.#items;
    return items.slice(-Math.min(limit, this.#max));
  }
}

/** Returns the condition for {@link Recent.list} that selects the items of one account, or all without an account. */
export function isOf(
  account: string | undefined,
): ((item: { readonly account?: string | undefined }) => boolean) | undefined {
  return account === undefined ? undefined : (item) => item.account === account;
}
