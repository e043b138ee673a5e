// The table of accounts, with their encrypted tokens.
import { db } from "./database.ts";
import { decrypt, encrypt } from "./encryption.ts";
import { accountsKey } from "./settings.ts";

/** Stores an account, or a new token of an account. */
export async function saveAccount(account: string, token: string): Promise<void> {
  await db.query(
    `INSERT INTO accounts VALUES ($1, $2, 0)
     ON CONFLICT (account) DO UPDATE SET token = excluded.token, leaving = 0`,
    [account, encrypt(accountsKey, account, token)],
  );
}

/**
 * Returns the token of an account. stayhook asks for it before each request, so a new token works at once.
 *
 * @throws Error if there is no such account
 */
export async function tokenOf(account: string | undefined): Promise<string> {
  const [row] = await db.query("SELECT token FROM accounts WHERE account = $1", [account ?? ""]);
  if (account === undefined || !row) throw new Error(`There is no account ${account}.`);
  return decrypt(accountsKey, account, String(row.token));
}

/** Returns the ids of the accounts that have joined and do not leave. */
export async function accountIds(): Promise<string[]> {
  const rows = await db.query("SELECT account FROM accounts WHERE leaving = 0 ORDER BY account");
  return rows.map(({ account }) => String(account));
}

export async function isServed(account: string): Promise<boolean> {
  const rows = await db.query("SELECT 1 FROM accounts WHERE account = $1 AND leaving = 0", [account]);
  return rows.length > 0;
}

/** @returns whether there is such an account */
export async function markLeaving(account: string): Promise<boolean> {
  await db.query("UPDATE accounts SET leaving = 1 WHERE account = $1", [account]);
  return (await leavingAccounts()).includes(account);
}

/** Returns the accounts whose deletion has begun and has not ended. */
export async function leavingAccounts(): Promise<string[]> {
  const rows = await db.query("SELECT account FROM accounts WHERE leaving = 1");
  return rows.map(({ account }) => String(account));
}

export async function removeAccount(account: string): Promise<void> {
  await db.query("DELETE FROM accounts WHERE account = $1 AND leaving = 1", [account]);
}
