import type { SandboxDelivery } from "stayhook/testing";

/** Counts the overtaken events. An event is overtaken if a later event was sent before it. */
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
