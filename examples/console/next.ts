// The console of console.ts in Next.js: app/ops/console/route.ts.
import { inbox } from "./console.ts";

export const dynamic = "force-dynamic";

export const GET = (request: Request) => inbox.fetch(request);
export const POST = GET;
