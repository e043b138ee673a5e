// Astro, with an adapter for your server: src/pages/hooks.ts
export const prerender = false;

export async function POST({ request }: { request: Request }): Promise<Response> {
  // Imported here, so that a build needs none of the variables of your server, and makes no events.db.
  const { webhooks } = await import("./webhooks.ts"); // yours: "../lib/webhooks"
  return webhooks.fetch(request);
}
