/** Next.js calls it when the server starts. Loads stayhook in no request, whose async context all callbacks would see. */
export async function register(): Promise<void> {
  if (process.env.NEXT_RUNTIME === "nodejs") await import("stayhook");
}
