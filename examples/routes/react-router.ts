// React Router 7, and Remix: app/routes/hooks.ts, a route without a component
// Loaded with this file, and not by the first request, whose async context all callbacks would see.
import "stayhook";

export async function action({ request }: { request: Request }): Promise<Response> {
  // Imported here, so that a build needs none of the variables of your server, and makes no events.db.
  const { webhooks } = await import("./webhooks.ts"); // yours: "~/webhooks.server"
  return webhooks.fetch(request);
}
