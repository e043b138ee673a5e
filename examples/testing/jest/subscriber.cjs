const { createWebhookHandler, sharedSecret } = require("stayhook");

exports.onConfirmed =
  (calendar) =>
  async ({ changed, stayChange: { to } }) => {
    if (changed && to) await calendar.set(to.bookingCode, to.listingId, to.checkIn, to.checkOut);
  };

exports.createSubscriber = (client, store, calendar) =>
  createWebhookHandler({
    client,
    store,
    verify: sharedSecret({ query: "key", secret: "s3cret-of-a-test" }),
    on: { "booking.Confirmed": exports.onConfirmed(calendar) },
    autoStart: false,
  });
