import { after } from "next/server";
// Loaded with this file, and not by the first request, whose async context all callbacks would see.
import "stayhook";

export async function POST(request: Request): Promise<Response> {
  // Imported here, so that a build needs none of the variables of your server, and makes no events.db.
  const { webhooks } = await import("../../webhooks");
  // Answers at once. The callbacks run after the answer.
  return webhooks.fetch(request, { waitUntil: after });
}
