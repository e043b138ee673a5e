// The accounts that a command asks the platform for, and their tokens.

import { readFileSync } from "node:fs";
import { ACCOUNT_RULE, isAccount } from "../account.ts";
import type { StayhookClient } from "../client/client.ts";
import { errorText } from "../error-text.ts";
import { accountGiven } from "./arguments.ts";
import { type Invocation, MissingError, type Options, UsageError } from "./command.ts";

/** The token of each account. */
export type Tokens = ReadonlyMap<string, string>;

export const accountOption: Options = {
  account: { value: "<id>", help: "the account; STAYHOOK_ACCESS_TOKEN is the token of this account" },
};

export const accountOptions: Options = {
  ...accountOption,
  accounts: {
    value: "<file>",
    help: 'the accounts and their tokens: a JSON file such as { "a17": "<token>" }',
  },
};

/**
 * Reads `--account` and `--accounts`.
 *
 * @returns `undefined` if neither is given
 * @throws UsageError; MissingError if there is no such file
 */
export function tokensGiven(invocation: Invocation): Tokens | undefined {
  const account = accountGiven(invocation);
  const file = invocation.text("accounts");
  if (account !== undefined && file !== undefined)
    throw new UsageError("Give --account or --accounts, but not both.");
  if (account !== undefined) return new Map([[account, invocation.io.env.STAYHOOK_ACCESS_TOKEN ?? ""]]);
  return file === undefined ? undefined : readTokens(file);
}

/** Makes the client of the account in `--account`, or of the only account. */
export async function clientOfAccount(invocation: Invocation): Promise<StayhookClient> {
  const account = accountGiven(invocation);
  const client = await invocation.client(tokensGiven(invocation));
  return account === undefined ? client : client.account(account);
}

function readTokens(file: string): Tokens {
  let read: unknown;
  try {
    read = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    // The message of a SyntaxError shows a part of the file, which may be a token.
    if (error instanceof SyntaxError) throw new UsageError(`--accounts: ${file} is not JSON.`);
    throw new MissingError(`--accounts: ${file} could not be read: ${errorText(error)}`);
  }
  const entries = typeof read === "object" && !Array.isArray(read) ? Object.entries(read ?? {}) : [];
  if (entries.length === 0)
    throw new UsageError(`--accounts: ${file} must be an object with a token for each account.`);
  for (const [account, token] of entries) {
    if (!isAccount(account))
      throw new UsageError(
        `--accounts: ${JSON.stringify(account)} is not the id of an account: ${ACCOUNT_RULE}.`,
      );
    if (typeof token !== "string" || token === "")
      throw new UsageError(`--accounts: the token of account ${account} must be a text.`);
  }
  return new Map(entries as [string, string][]);
}
