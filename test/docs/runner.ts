interface Case {
  readonly name: string;
  readonly run: () => Promise<void>;
}

/** Test cases that a block has passed to its test runner. */
export const collected: Case[] = [];

export function test(name: string, run: () => Promise<void>): void {
  collected.push({ name, run });
}
