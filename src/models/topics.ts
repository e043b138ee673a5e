// This file stands alone because adapters import it, and must not bring zod along.

/** The topics that this package knows. The platform may add others. */
export const topics = ["bookings", "listings", "messages"] as const;
/** One of {@link topics}. */
export type Topic = (typeof topics)[number];

export function isTopic(name: unknown): name is Topic {
  return (topics as readonly unknown[]).includes(name);
}

/** Returns the topic of a name in any case. `undefined` if there is no such topic. */
export function topicOf(name: unknown): Topic | undefined {
  return typeof name === "string" ? topics.find((topic) => topic === name.toLowerCase()) : undefined;
}
