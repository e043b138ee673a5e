import { InvalidArgumentError, type Issue } from "../errors.ts";

/** Throws the error for a wrong argument. */
export function refuse(message: string, ...path: Issue["path"]): never {
  throw new InvalidArgumentError({ path, message });
}

/** A copy by way of JSON, so that no caller can change the sandbox's own objects. */
export function copy<T>(value: T): T {
  try {
    return JSON.parse(JSON.stringify(value)) as T;
  } catch (error) {
    return refuse(`cannot be written as JSON: ${(error as Error).message}`);
  }
}

/** Checks and copies the fields that a caller gave. Fields that are `undefined` are left out. */
export function toFields(fields: unknown, reserved: readonly string[] = []): Record<string, unknown> {
  if (fields === undefined) return {};
  if (typeof fields !== "object" || fields === null || Array.isArray(fields)) refuse("must be an object");
  for (const name of reserved)
    if ((fields as Record<string, unknown>)[name] !== undefined)
      refuse(`must be left out here; create() makes a record with any ${name}`, name);
  return copy(fields as Record<string, unknown>);
}

/** Takes `status` out of the fields of `create`. */
export function takeStatus(fields: unknown): {
  readonly status: string;
  readonly rest: Record<string, unknown>;
} {
  const { status, ...rest } = toFields(fields);
  if (typeof status !== "string" || status === "") refuse("must be a status", "status");
  return { status, rest };
}

/** A change of status: the statuses that it starts from, and the one that it leads to. */
export interface Move {
  readonly from: (status: string) => boolean;
  readonly to: string;
}

/** The names of the moves that are possible from a status. */
export function possibleMoves<Name extends string>(
  moves: Readonly<Record<Name, Move>>,
  status: string,
): Name[] {
  return (Object.keys(moves) as Name[]).filter((name) => moves[name].from(status));
}

/** The bookings or the listings, by their ids. Every record that it returns is a copy. */
export class Records<Id extends string | number, R extends { readonly status: string }, Name extends string> {
  readonly #records = new Map<Id, R>();
  readonly #kind: string;
  readonly #idField: string;
  readonly #moves: Readonly<Record<Name, Move>>;

  constructor(kind: "booking" | "listing", idField: string, moves: Readonly<Record<Name, Move>>) {
    this.#kind = kind;
    this.#idField = idField;
    this.#moves = moves;
  }

  has(id: Id): boolean {
    return this.#records.has(id);
  }

  get(id: Id): R | undefined {
    const record = this.#records.get(id);
    return record && copy(record);
  }

  list(): R[] {
    return [...this.#records.values()].map(copy);
  }

  add(id: Id, record: R): R {
    if (this.has(id)) refuse(`there is already a ${this.#kind} ${id}`, this.#idField);
    this.#records.set(id, record);
    return copy(record);
  }

  change(id: Id, fields: object): R {
    const changed = { ...this.#known(id), ...fields };
    this.#records.set(id, changed);
    return copy(changed);
  }

  /** @throws InvalidArgumentError where the status does not allow the move; it names the possible ones */
  move(id: Id, name: Name): R {
    const { status } = this.#known(id);
    const possible = possibleMoves(this.#moves, status);
    if (!possible.includes(name))
      refuse(
        `cannot ${name} ${this.#kind} ${id}, which is ${status}; ` +
          (possible.length === 0 ? "its status is final" : `possible: ${possible.join(", ")}`),
        "status",
      );
    return this.change(id, { status: this.#moves[name].to });
  }

  #known(id: Id): R {
    return this.#records.get(id) ?? refuse(`there is no ${this.#kind} ${String(id)}`, this.#idField);
  }
}
