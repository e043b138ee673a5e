const { createWebhookHandler, sharedSecret, stay } = require("stayhook");

exports.onConfirmed =
  (calendar) =>
  async ({ booking, changed }) => {
    if (!changed) return;
    const { checkIn, checkOut } = stay(booking);
    await calendar.set(booking.bookingCode, booking.listingId, checkIn, checkOut);
  };

exports.createSubscriber = (client, store, calendar) =>
  createWebhookHandler({
    client,
    store,
    verify: sharedSecret({ query: "key", secret: "s3cret-of-a-test" }),
    on: { "booking.Confirmed": exports.onConfirmed(calendar) },
    autoStart: false,
  });
