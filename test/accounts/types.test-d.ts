import { describe, expectTypeOf, test } from "vitest";
import {
  type BookingEvent,
  createWebhookHandler,
  type EventOf,
  forwardTo,
  memoryStore,
  StayhookClient,
  type WebhookEvent,
  type WithAccount,
} from "../../src/index.ts";

const client = new StayhookClient({ accessToken: ({ account }) => account ?? "" });
const store = memoryStore();

describe("event.account", () => {
  test("is a string in every callback of a handler with accountFrom", () => {
    const handler = createWebhookHandler({
      client,
      store,
      accountFrom: { query: "account" },
      track: { booking: ({ checkIn }) => ({ checkIn }) },
      on: {
        "booking.Confirmed": ({ account, changes }) => {
          expectTypeOf(account).toEqualTypeOf<string>();
          expectTypeOf(changes).toHaveProperty("checkIn");
        },
        "booking.timer.door": (event) => expectTypeOf(event.account).toEqualTypeOf<string>(),
        booking: (event) => expectTypeOf(event.account).toEqualTypeOf<string>(),
        message: (event) => expectTypeOf(event.account).toEqualTypeOf<string>(),
        fallback: (event) => expectTypeOf(event.account).toEqualTypeOf<string>(),
      },
    });
    expectTypeOf<EventOf<typeof handler, "booking.Confirmed">["account"]>().toEqualTypeOf<string>();
    expectTypeOf<EventOf<typeof handler, "unknown">["account"]>().toEqualTypeOf<string>();
  });

  test("is there with a function, and with forwardTo", () => {
    createWebhookHandler({
      client,
      store: forwardTo(() => {}),
      accountFrom: ({ url, headers }) => {
        expectTypeOf(url).toEqualTypeOf<URL>();
        return headers.get("x-account") ?? url.pathname.split("/")[1];
      },
      on: { booking: ({ account, booking }) => [account, booking.bookingCode] },
    });
  });

  test("is not there without accountFrom", () => {
    const handler = createWebhookHandler({
      client,
      store,
      on: {
        // @ts-expect-error no account
        booking: ({ account }) => account,
      },
    });
    expectTypeOf<EventOf<typeof handler, "booking">>().not.toHaveProperty("account");
    expectTypeOf<WebhookEvent>().not.toHaveProperty("account");
  });

  test("is there in the events of settings with accountFrom, and with WithAccount", () => {
    const settings = { client, store, accountFrom: { query: "account" } };
    expectTypeOf<EventOf<typeof settings, "booking">["account"]>().toEqualTypeOf<string>();
    const onConfirmed = ({ account, booking }: WithAccount<BookingEvent<"Confirmed">>) => [
      account,
      booking.bookingCode,
    ];
    createWebhookHandler({ ...settings, on: { "booking.Confirmed": onConfirmed } });
    createWebhookHandler({
      client,
      store,
      // @ts-expect-error the handler has no accounts
      on: { "booking.Confirmed": onConfirmed },
    });
  });

  test("accountFrom is synchronous", () => {
    // @ts-expect-error a promise
    createWebhookHandler({ client, store, accountFrom: async () => "a17", on: {} });
  });
});
