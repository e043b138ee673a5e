// How an account joins and leaves. Both may be called again, so that a crash in between does no harm.
import { setTimeout as sleep } from "node:timers/promises";
import { AccessTokenError, AuthenticationError } from "stayhook";
import { leavingAccounts, markLeaving, removeAccount, saveAccount } from "./accounts.ts";
import { eraseCalendar } from "./calendar.ts";
import { client, reconciler, urlOf, webhooks } from "./webhooks.ts";

/**
 * Stores the token of an account, and tells the platform the account's URL. Call it again for a new token.
 *
 * @throws AuthenticationError if the platform refuses the token
 */
export async function join(account: string, token: string): Promise<void> {
  const url = await urlOf(account); // throws if this is no id of an account, before anything is stored
  await saveAccount(account, token);
  await client.account(account).webhookConfig.ensure({ endpoints: url });
  // Reads the account's records in the background, because an account may have thousands.
  reconciler.run({ account }).then(
    ({ checked }) => console.log(`${account}: ${checked} records checked`),
    (error) => console.error(`${account}: the first pass failed, and the next one is on schedule:`, error),
  );
}

/** Deletes everything of an account. @returns whether there is such an account */
export async function leave(account: string): Promise<boolean> {
  // From now on, the route for notifications answers 404 for this account, and the reconciler leaves it out.
  if (!(await markLeaving(account))) return false;
  await stopNotifications(account);
  // Callbacks that run may still write. Their records are erased when they have ended.
  while ((await webhooks.eraseAccount(account)).processing > 0) await sleep(500);
  await eraseCalendar(account);
  await removeAccount(account);
  console.log(`${account}: left`);
  return true;
}

async function stopNotifications(account: string): Promise<void> {
  try {
    await client.account(account).webhookConfig.delete();
  } catch (error) {
    // Without a valid token, nothing can be deleted at the platform. Any other error ends the call: then call it again.
    if (!(error instanceof AuthenticationError || error instanceof AccessTokenError)) throw error;
    console.error(`${account}: the platform keeps its webhook configuration, because the token is not valid`);
  }
}

/** Continues what a crash has interrupted. */
export async function finishLeaving(): Promise<void> {
  try {
    for (const account of await leavingAccounts()) await leave(account);
  } catch (error) {
    console.error("An account could not leave. Call DELETE again:", error);
  }
}
