// React Router 7, and Remix: app/routes/hooks.ts, a route without a component
import { webhooks } from "./webhooks.ts"; // yours: "~/webhooks.server"

export const action = ({ request }: { request: Request }) => webhooks.fetch(request);
