import type { SandboxDelivery } from "stayhook/testing";

/** Counts the events that were first sent after an event that happened later. */
export function countOvertaken(deliveries: readonly SandboxDelivery[]): number {
  const seen = new Set<unknown>();
  let latest = "";
  let overtaken = 0;
  for (const { eventId, notification } of deliveries) {
    if (seen.has(eventId)) continue;
    seen.add(eventId);
    const { timestamp } = notification as { timestamp: string };
    if (timestamp < latest) overtaken++;
    else latest = timestamp;
  }
  return overtaken;
}
