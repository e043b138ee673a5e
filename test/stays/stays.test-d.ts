import { type Booking, createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { createStays, type HoldThing, hold, type Json, once, type WantContext } from "stayhook/stays";
import { describe, expectTypeOf, test } from "vitest";

const client = new StayhookClient({ baseUrl: "https://platform.example", accessToken: "t" });
const at = new Date();

describe("the types of stays", () => {
  test("the names of want are the keys of apply, and parameters need no annotation", () => {
    createStays({
      want: ({ checkIn, checkOut }, { booking, at }) => [
        hold("nights", { data: { status: booking.status } }),
        hold("door-code", { from: at(checkIn, "15:00"), until: at(checkOut, "11:00") }),
        once("welcome", { at: at(checkIn, "15:00") }),
      ],
      apply: {
        nights: { begin: ({ stay, data }) => void [stay.nights, data], end: ({ stay }) => stay.listingId },
        "door-code": {
          begin: async ({ stay, id }) => `${stay.bookingCode} ${id}`,
          end: ({ value, account }) =>
            expectTypeOf({ value, account }).toEqualTypeOf<{ value: Json | undefined; account: undefined }>(),
        },
        welcome: ({ values, isEarly }) => {
          expectTypeOf(values["door-code"]).toEqualTypeOf<Json | undefined>();
          expectTypeOf(isEarly).toEqualTypeOf<boolean>();
        },
      },
    });
  });

  test("holds alone, onces alone, and a value with a type of its own", () => {
    createStays({
      want: () => [hold("door")],
      apply: { door: { begin: () => "1234", end: ({ value }: HoldThing<string>) => value?.length } },
    });
    createStays({ want: () => [once("mail", { at })], apply: { mail: ({ at }) => at.getTime() } });
  });

  test("a model of one's own by an annotation of want", () => {
    type Mine = Booking & { readonly total: number };
    const price = (booking: Mine) => [hold("nights", { data: booking.total })];
    const apply = { nights: { begin: () => {}, end: () => {} } };
    const base = { store: memoryStore(), verify: false as const, on: {} };
    const mine = null as unknown as StayhookClient<Mine>;
    const stays = createStays({ want: (_, { booking }: WantContext<Mine>) => price(booking), apply });
    createWebhookHandler({ ...base, client: mine, stays });
    // @ts-expect-error the client reads other bookings
    createWebhookHandler({ ...base, client, stays });
    const want = (_: unknown, { booking }: WantContext<Mine, true>) => price(booking);
    const vendors = createStays({ accounts: true, want, apply });
    createWebhookHandler({ ...base, client: mine, accountFrom: { query: "account" }, stays: vendors });
  });

  test("a name that apply lacks, a hold without end, and the wrong kind", () => {
    const both = () => [hold("nights"), hold("nigths")];
    // @ts-expect-error `apply` lacks "nigths"
    createStays({ want: both, apply: { nights: { begin: () => {}, end: () => {} } } });
    // @ts-expect-error a hold needs `end`
    createStays({ want: () => [hold("nights")], apply: { nights: { begin: () => {} } } });
    // @ts-expect-error a hold is no function
    createStays({ want: () => [hold("nights")], apply: { nights: () => {} } });
    // @ts-expect-error a once is a function
    createStays({ want: () => [once("mail", { at })], apply: { mail: { begin: () => {}, end: () => {} } } });
  });

  test("a value of another type", () => {
    // @ts-expect-error a Map is no JSON
    createStays({ want: () => [hold("door")], apply: { door: { begin: () => new Map(), end: () => {} } } });
    const remove = (_: number) => {};
    createStays({
      want: () => [hold("door")],
      // @ts-expect-error a value is JSON or undefined
      apply: { door: { begin: () => "1", end: ({ value }) => remove(value) } },
    });
  });

  test("accounts: true gives an account, and needs accountFrom", () => {
    const want = () => [once("mail", { at })];
    const withAccounts = createStays({
      accounts: true,
      want,
      apply: { mail: ({ account }) => expectTypeOf(account).toEqualTypeOf<string>() },
    });
    const without = createStays({ want, apply: { mail: () => {} } });
    const base = { client, store: memoryStore(), verify: false as const, on: {} };
    createWebhookHandler({ ...base, accountFrom: { query: "account" }, stays: withAccounts });
    createWebhookHandler({ ...base, stays: without });
    // @ts-expect-error the handler has no accountFrom
    createWebhookHandler({ ...base, stays: withAccounts });
    // @ts-expect-error the stays have no accounts
    createWebhookHandler({ ...base, accountFrom: { query: "account" }, stays: without });
  });
});
