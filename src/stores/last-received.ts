import type { EventStore } from "./event-store.ts";

/** The key of the meta value that keeps `lastReceivedAt` when the last webhook event is deleted. */
export const LAST_RECEIVED = "stayhook:last-received";

/** Writes the time of the last notification, so that it stays known without its event. */
export async function keepLastReceived(store: EventStore<unknown>, receivedAt: number): Promise<void> {
  const kept = await store.getMeta(LAST_RECEIVED);
  if (receivedAt > Number(kept?.value ?? 0))
    await store.setMeta(LAST_RECEIVED, String(receivedAt), { expected: kept?.value });
}
