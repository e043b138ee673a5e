interface Case {
  readonly name: string;
  readonly run: () => Promise<void>;
}

/** What a block has handed to its test runner. */
export const collected: Case[] = [];

export function test(name: string, run: () => Promise<void>): void {
  collected.push({ name, run });
}
