import { after } from "next/server";
import { webhooks } from "../../webhooks";

export function POST(request: Request): Promise<Response> {
  // Answers at once. The callbacks run after the answer.
  return webhooks.fetch(request, { waitUntil: after });
}
