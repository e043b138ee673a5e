// One client, one handler and one reconciler serve all accounts.
import { createWebhookHandler, StayhookClient, sharedSecret, stayChange } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { accountIds, tokenOf } from "./accounts.ts";
import { block, release } from "./calendar.ts";
import { queryIn, store } from "./database.ts";
import { baseUrl, hooksUrl, reconcileEvery, timeZone, webhookSecret } from "./settings.ts";

export const client = new StayhookClient({ baseUrl, accessToken: ({ account }) => tokenOf(account) });

export const webhooks = createWebhookHandler({
  client,
  store,
  accountFrom: { query: "account" },
  verify: sharedSecret({ query: "key", secret: webhookSecret, perAccount: true }),
  // For accounts in several zones, keep each one's zone in its row, and return it here: (booking, { account }) => …
  timeZone,
  on: {
    booking: (event) => {
      const { account, booking } = event;
      const { from, to } = stayChange(event);
      // The calendar changes in the transaction that marks the event as done: both happen once, or neither does.
      event.atomically((tx) =>
        to ? block(account, to, queryIn(tx)) : release(account, booking.bookingCode, queryIn(tx)),
      );
      if (to) console.log(`${account}: block ${booking.bookingCode}, ${to.checkIn} to ${to.checkOut}`);
      else if (from) console.log(`${account}: release ${booking.bookingCode}`);
    },
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
