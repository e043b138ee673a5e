// Astro, with an adapter for your server: src/pages/hooks.ts
import { webhooks } from "./webhooks.ts"; // yours: "../lib/webhooks"

export const prerender = false;

export const POST = ({ request }: { request: Request }) => webhooks.fetch(request);
