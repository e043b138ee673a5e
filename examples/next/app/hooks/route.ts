import { after } from "next/server";
import { webhooks } from "../../webhooks";

export function POST(request: Request): Promise<Response> {
  // Answers at once; the callbacks run after it.
  return webhooks.fetch(request, { waitUntil: after });
}
