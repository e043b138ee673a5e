// One client, one handler and one reconciler serve all accounts.
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { createStays, hold } from "stayhook/stays";
import { accountIds, tokenOf } from "./accounts.ts";
import { block, release } from "./calendar.ts";
import { queryIn, store, type Transaction } from "./database.ts";
import { baseUrl, hooksUrl, reconcileEvery, timeZone, webhookSecret } from "./settings.ts";

export const client = new StayhookClient({ baseUrl, accessToken: ({ account }) => tokenOf(account) });

const stays = createStays({
  accounts: true,
  want: () => [hold("nights")],
  apply: {
    nights: {
      // The calendar changes in the transaction that marks the event as done: both happen once, or neither does.
      begin: ({ account, stay, atomically }) => {
        atomically((tx: Transaction) => block(account, stay, queryIn(tx)));
        console.log(`${account}: block ${stay.bookingCode}, ${stay.checkIn} to ${stay.checkOut}`);
      },
      end: ({ account, stay, atomically }) => {
        atomically((tx: Transaction) => release(account, stay, queryIn(tx)));
        console.log(`${account}: release ${stay.bookingCode}`);
      },
    },
  },
});

export const webhooks = createWebhookHandler({
  client,
  store,
  accountFrom: { query: "account" },
  verify: sharedSecret({ query: "key", secret: webhookSecret, perAccount: true }),
  // For accounts in several zones, keep each one's zone in its row, and return it here: (booking, { account }) => …
  timeZone,
  stays,
  on: {
    "listing.Published": ({ account, listing }) =>
      console.log(`${account}: live ${listing.listingId}, ${listing.listingName}`),
  },
});

/** Returns the URL that the platform calls for an account. */
export const urlOf = (account: string) => webhooks.endpointUrl(hooksUrl, { account });

// Notifications get lost, and the platform sends none for some changes.
export const reconciler = createReconciler(webhooks, {
  every: reconcileEvery,
  accounts: accountIds,
  expectedEndpoints: urlOf,
});
