// SvelteKit: src/routes/hooks/+server.ts
import { webhooks } from "./webhooks.ts"; // yours: "$lib/server/webhooks"

export const POST = ({ request }: { request: Request }) => webhooks.fetch(request);
