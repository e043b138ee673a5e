import { isTopic } from "../../models/webhook-config.ts";

/** Where the topic of an endpoint stands in its URL. */
export interface TopicFrom {
  /** The name of a query parameter. */
  readonly query: string;
}

/** Reads the topic from a URL; `undefined` for a topic that is not known, and where the URL has several. */
export function topicIn(url: unknown, { query }: TopicFrom): string | undefined {
  if (typeof url !== "string" || !url.includes("?")) return undefined;
  const search = url.slice(url.indexOf("?") + 1).split("#", 1)[0];
  const [topic, ...others] = new URLSearchParams(search).getAll(query);
  return topic !== undefined && others.length === 0 && isTopic(topic) ? topic : undefined;
}
