// For the start hook of your framework: docs/frameworks/index.md says which file calls it.
/** Loads the handler in no request, and handles the events that a crash left behind. */
export async function start(): Promise<void> {
  const { webhooks } = await import("./webhooks.ts");
  webhooks.start();
}
