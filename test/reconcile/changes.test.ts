import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { expect, test } from "vitest";
import { Changes } from "../../src/reconcile/changes.ts";
import { insideOf } from "../../src/webhooks/inside.ts";

/** A change that two machines see, and what the one that is slower finds. */
async function seen() {
  const store = memoryStore();
  const client = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: "secret-token",
    fetch: async () => Response.json({ bookingCode: "A1", status: "Confirmed" }),
  });
  const told: string[] = [];
  const webhooks = createWebhookHandler({
    client,
    store,
    on: { fallback: ({ eventId }) => void told.push(eventId) },
    autoStart: false,
  });
  return { store, webhooks, told, changes: new Changes(store, insideOf(webhooks)!) };
}

test("who sees a change that was handled since adds nothing for it", async () => {
  const { webhooks, told, changes, store } = await seen();
  const eventId = await changes.add("booking:A1", undefined, "Confirmed");
  expect(await changes.add("booking:A1", undefined, "Confirmed")).toBeUndefined();
  await webhooks.drain();
  expect(told).toEqual([eventId]);
  // Late: it has the status as it was before.
  expect(await changes.add("booking:A1", undefined, "Confirmed")).toBeUndefined();
  expect(await store.counts()).toMatchObject({ pending: 0, done: 1 });
});

test("the id is the same on every machine, and says which change it is", async () => {
  const [first, second] = [await seen(), await seen()];
  const at = (sequence: number, status: string) => ({
    ref: "booking:A1",
    status,
    sequence,
    seenAt: new Date(),
  });
  const id = await first.changes.add("booking:A1", at(1, "Request"), "Confirmed");
  expect(await second.changes.add("booking:A1", at(1, "Request"), "Confirmed")).toBe(id);
  const others = [
    await first.changes.add("booking:A1", at(3, "Request"), "Confirmed"),
    await first.changes.add("booking:A1", at(1, "Initiated"), "Confirmed"),
    await first.changes.add("booking:A1", at(1, "Request"), "Cancelled"),
    await first.changes.add("booking:A2", at(1, "Request"), "Confirmed"),
  ];
  expect(others).not.toContain(undefined);
  expect(new Set([id, ...others]).size).toBe(5);
});
