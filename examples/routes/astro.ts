// Astro, with an adapter for your server: src/pages/hooks.ts
// Loaded with this file, and not by the first request, whose async context all callbacks would see.
import "stayhook";

export const prerender = false;

export async function POST({ request }: { request: Request }): Promise<Response> {
  // Imported here, so that a build needs none of the variables of your server, and makes no events.db.
  const { webhooks } = await import("./webhooks.ts"); // yours: "../lib/webhooks"
  return webhooks.fetch(request);
}
