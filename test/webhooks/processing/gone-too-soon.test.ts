// A booking that exists is not called gone, and a witness that cannot be read says nothing.
import type { WebhookEvent } from "stayhook";
import { describe, expect, test } from "vitest";
import { advance, clientOf, HOUR, handlerOf, MINUTE, notificationOf, useFakeTime } from "../support.ts";

useFakeTime(new Date(Date.UTC(2026, 4, 1)));

const SECOND = 1000;
const stayed = { listingId: 7, checkIn: "2026-12-09", checkOut: "2026-12-12" };
const down = { status: 500 };
const missing = { status: 404 };

/** A host whose bookings the handler has read, and what its callbacks were told. */
async function hostWith(count: number, options: Parameters<typeof handlerOf>[0] = {}) {
  const told: WebhookEvent[] = [];
  const on = { fallback: (event: WebhookEvent) => void told.push(event) };
  const handler = handlerOf({ on, recheckAfter: false, ...options });
  const { platform, deliver, store } = handler;
  const codes = Array.from({ length: count }, (_, n) => `A${n + 1}`);
  const show = (code: string) => platform.booking(code, "Confirmed", stayed);
  for (const code of codes) show(code);
  platform.answer("listings", { status: 200, body: [{ listingId: 7, status: "Published" }] });
  const notify = async (bookingCode: string) => {
    const notification = notificationOf({ bookingCode });
    await deliver(notification);
    return notification.eventId;
  };
  for (const code of codes) {
    await notify(code);
    await advance(10);
  }
  expect(await store.counts()).toMatchObject({ done: count, retrying: 0 });
  platform.reads.length = 0;
  const gone = () => told.filter(({ type }) => type.endsWith(".gone"));
  const readsOf = (code: string) => platform.reads.filter((read) => read === code).length;
  return { ...handler, told, gone, show, notify, readsOf };
}

describe("a booking that exists is not called gone", () => {
  test("by one moment of 404 after an outage of giveUpAfter", async () => {
    const { platform, show, notify, gone, readsOf, store } = await hostWith(2, { giveUpAfter: 10 * MINUTE });
    platform.answer("A1", down);
    platform.answer("A2", down);
    const eventId = await notify("A1");
    const from = Date.now();
    while (Date.now() - from < 9 * MINUTE + 55 * SECOND) await advance(SECOND);
    // The platform is back. It answers 404 for A1 during the next read, and shows it a second later.
    show("A2");
    let hidden = 0;
    platform.answer("A1", () => {
      hidden += 1;
      return missing;
    });
    await notify("A2");
    for (let n = 0; n < 120 && hidden === 0; n += 1) await advance(100);
    show("A1");
    expect(readsOf("A1")).toBeGreaterThan(5);
    await advance(HOUR);
    expect(gone()).toEqual([]);
    expect(await store.get(eventId)).toMatchObject({ state: "done" });
  });
});

describe("a booking that is gone", () => {
  const deleted = async (witness: "works" | "is broken") => {
    const host = await hostWith(3);
    // A3 was seen last, and is asked first.
    if (witness === "is broken") host.platform.answer("A3", down);
    host.platform.answer("A1", missing);
    const eventId = await host.notify("A1");
    await advance(24 * HOUR);
    return { ...host, event: await host.store.get(eventId) };
  };

  test("is told so", async () => {
    const { gone } = await deleted("works");
    expect(gone()).toHaveLength(1);
  });

  test("is told so although the booking that was seen last is broken", async () => {
    const { gone, event } = await deleted("is broken");
    expect(event).toMatchObject({ state: "done" });
    expect(gone()).toHaveLength(1);
  });
});

describe("a Retry-After is obeyed", () => {
  const limited = { status: 429, headers: { "retry-after": "600" } };

  test("if the read after the witness got it", async () => {
    const { platform, notify, readsOf } = await hostWith(2);
    platform.answer("A1", (reads) => (reads < 6 ? missing : limited));
    await notify("A1");
    for (let n = 0; n < 3600 && readsOf("A1") < 6; n += 1) await advance(SECOND);
    await advance(SECOND);
    platform.reads.length = 0;
    await notify("A2");
    await advance(5 * MINUTE);
    expect(platform.reads).toEqual([]);
  });

  test("if the witness got it", async () => {
    const { platform, notify, webhooks } = await hostWith(2);
    platform.answer("A1", missing);
    platform.answer("A2", limited);
    await notify("A1");
    await advance(SECOND);
    expect(await webhooks.health()).toMatchObject({ state: "paused" });
    platform.reads.length = 0;
    await advance(MINUTE);
    await notify("A2");
    await advance(5 * MINUTE);
    expect(platform.reads).toEqual([]);
  });
});

describe("a vault that hangs", () => {
  const stateOf = async (seconds: number) => {
    const hangs = () => new Promise<never>(() => {});
    const { webhooks, platform } = handlerOf({
      accountFrom: { query: "account" },
      attemptTimeout: seconds * SECOND,
      on: { fallback: () => {} },
      clientOf: (stub) =>
        clientOf(stub, { accessToken: ({ account }) => (account === "z" ? "token" : hangs()) }),
    });
    platform.booking("Z", "Confirmed", stayed);
    const notify = (account: string, bookingCode: string) =>
      webhooks.fetch(
        new Request(`https://subscriber.example/hooks?account=${account}`, {
          method: "POST",
          body: JSON.stringify(notificationOf({ bookingCode })),
        }),
      );
    for (let n = 0; n < 6; n += 1) {
      await notify("x", `X${n}`);
      await notify("y", `Y${n}`);
      await advance(SECOND);
    }
    await advance(MINUTE);
    return (await webhooks.health()).state;
  };

  test("is about its accounts", async () => {
    expect(await stateOf(60)).toBe("running");
  });
});
