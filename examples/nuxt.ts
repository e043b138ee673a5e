// Nuxt, and Nitro: server/routes/hooks.post.ts
//   npm install stayhook
import { defineEventHandler, toWebRequest } from "h3";
// Loaded with this file, and not by the first request, whose async context all callbacks would see.
import "stayhook";

export default defineEventHandler(async (event) => {
  // Imported here, so that a build needs none of the variables of your server, and makes no events.db.
  const { webhooks } = await import("./routes/webhooks.ts"); // yours: "../utils/webhooks"
  return webhooks.fetch(toWebRequest(event));
});
