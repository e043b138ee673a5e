// How an account joins and leaves. Both may be called again, so that a crash in between does no harm. Each step that could
// undo a step of the other runs exclusively, so that an account may join while leave() still waits.
import { setTimeout as sleep } from "node:timers/promises";
import { AccessTokenError, AuthenticationError } from "stayhook";
import { isServed, leavingAccounts, markLeaving, removeAccount, saveAccount } from "./accounts.ts";
import { calendarOf, eraseCalendar } from "./calendar.ts";
import { db } from "./database.ts";
import { client, reconciler, urlOf, webhooks } from "./webhooks.ts";

/** Thrown by {@link leave} if the account has joined again before everything was deleted. The account then stays. */
export class JoinedAgainError extends Error {}

/**
 * Stores the token of an account, and tells the platform the account's URL. Call it again for a new token, or for further
 * bookings. An account that is about to leave stays.
 *
 * @param bookings - the codes of the bookings that the host has already, because the platform lists none
 * @throws AuthenticationError if the platform refuses the token; NotFoundError if it does not know one of the bookings
 */
export async function join(account: string, token: string, bookings: readonly string[] = []): Promise<void> {
  const url = await urlOf(account); // throws if this is no id of an account, before anything is stored
  await db.exclusively(account, async () => {
    await saveAccount(account, token);
    await client.account(account).webhookConfig.ensure({ endpoints: url });
  });
  // Reads the account's listings and known bookings in the background, because an account may have thousands.
  readAgain(account).catch((error) =>
    console.error(`${account}: the first pass failed, and the next one is on schedule:`, error),
  );
  // Resolves when the store has an event for each new booking. From now on, passes read them, too.
  if (bookings.length > 0) await reconciler.watch(bookings, { account });
}

/** Begins with what the calendar has: a leave() that waited may have erased what stayhook knew of these bookings. */
async function readAgain(account: string): Promise<void> {
  const known = (await calendarOf(account)).map(({ booking }) => String(booking));
  const watched = known.length > 0 && reconciler.watch(known, { account });
  const [{ checked }] = await Promise.all([reconciler.run({ account }), watched]);
  console.log(`${account}: ${checked} records checked`);
}

/**
 * Deletes everything of an account.
 *
 * @returns whether there is such an account
 * @throws JoinedAgainError if the account joins meanwhile
 */
export async function leave(account: string): Promise<boolean> {
  // From now on, the route for notifications answers 404 for this account, and the reconciler leaves it out.
  if (!(await markLeaving(account))) return false;
  await whileLeaving(account, () => stopNotifications(account));
  // Callbacks that run may still write. Their records are erased when they have ended.
  while (!(await whileLeaving(account, () => erase(account)))) await sleep(500);
  console.log(`${account}: left`);
  return true;
}

/** Runs a step of {@link leave}, unless the account has joined again. Until the step ends, it cannot join. */
function whileLeaving<T>(account: string, step: () => Promise<T>): Promise<T> {
  return db.exclusively(account, async () => {
    if (await isServed(account)) throw new JoinedAgainError(`${account} has joined again, so it stays.`);
    return step();
  });
}

/** @returns whether everything of the account is deleted */
async function erase(account: string): Promise<boolean> {
  if ((await webhooks.eraseAccount(account)).processing > 0) return false;
  await eraseCalendar(account);
  await removeAccount(account);
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
  for (const account of await leavingAccounts())
    await leave(account).catch((error) =>
      console.error(`${account}: could not leave. Call DELETE again:`, error),
    );
}
