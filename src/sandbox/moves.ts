import { InvalidArgumentError } from "../errors.ts";

/** Where a move leads, and from which statuses. */
export interface Move {
  readonly from: (status: string) => boolean;
  readonly to: string;
}

/** Refuses a move that is not possible from this status, and says which ones are. */
export function checkMove<Name extends string>(
  moves: Readonly<Record<Name, Move>>,
  name: Name,
  record: { readonly kind: string; readonly id: string | number; readonly status: string },
): void {
  if (moves[name].from(record.status)) return;
  const possible = (Object.keys(moves) as Name[]).filter((other) => moves[other].from(record.status));
  throw new InvalidArgumentError({
    path: ["status"],
    message:
      `cannot ${name} ${record.kind} ${record.id}, which is ${record.status}; ` +
      (possible.length === 0 ? "nothing moves it from there" : `possible: ${possible.join(", ")}`),
  });
}
