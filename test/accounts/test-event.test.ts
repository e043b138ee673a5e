import { describe, expect, expectTypeOf, test } from "vitest";
import {
  type BookingEvent,
  createWebhookHandler,
  memoryStore,
  StayhookClient,
  type WithAccount,
} from "../../src/index.ts";
import { createTestEvent } from "../../src/testing/index.ts";

const UUID = "3f0e1d9a-58b4-4c4f-9a6e-6f3f1c2a7b10";

describe("createTestEvent with an account", () => {
  test("makes ref and eventId in the form of the account, and the platform's notification without it", () => {
    const event = createTestEvent("booking.Confirmed", { account: "a17", booking: { bookingCode: "HX3K9" } });
    expectTypeOf(event.account).toEqualTypeOf<string>();
    expect(event).toMatchObject({ account: "a17", ref: "a17/booking:HX3K9" });
    expect(event.eventId).toMatch(/^a17\/[0-9a-f-]{36}$/);
    expect(`a17/${event.notification?.eventId}`).toBe(event.eventId);
    for (const eventId of [UUID, `a17/${UUID}`])
      expect(createTestEvent("message", { account: "a17", eventId })).toMatchObject({
        ...{ account: "a17", ref: null, eventId: `a17/${UUID}`, notification: { eventId: UUID } },
      });
    const timer = createTestEvent("listing.timer.photos", { account: "a17" });
    expect(timer.eventId).toMatch(/^a17\/stayhook:timer:listing:5717008:photos:/);
    expect(() => createTestEvent("message", { account: "a/b" })).toThrow(/account/);
  });

  test("fits the callbacks that a handler with accountFrom takes", () => {
    const onConfirmed = ({ account, booking }: WithAccount<BookingEvent<"Confirmed">>) =>
      `${account} ${booking.bookingCode}`;
    expect(onConfirmed(createTestEvent("booking.Confirmed", { account: "a17" }))).toBe("a17 HX3K9");
    // @ts-expect-error without an account
    onConfirmed(createTestEvent("booking.Confirmed"));
    const client = new StayhookClient({ baseUrl: "https://x.example", accessToken: () => "t" });
    const accountFrom = { query: "account" };
    createWebhookHandler({
      ...{ client, store: memoryStore(), verify: false, accountFrom, autoStart: false },
      on: { "booking.Confirmed": onConfirmed },
    });
  });

  test("without an account, there is no such field", () => {
    const event = createTestEvent("booking.Confirmed");
    expectTypeOf(event).not.toHaveProperty("account");
    expect(Object.keys(event)).not.toContain("account");
  });
});
