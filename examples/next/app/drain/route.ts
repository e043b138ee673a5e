/** Processes retries. Call it each minute from a cron job. */
export async function GET(request: Request): Promise<Response> {
  const authorized = request.headers.get("authorization") === `Bearer ${process.env.CRON_SECRET}`;
  if (!process.env.CRON_SECRET || !authorized) return new Response(null, { status: 401 });
  const { webhooks } = await import("../../webhooks");
  return Response.json(await webhooks.drain({ timeout: 50_000 }));
}
