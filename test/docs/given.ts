import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createWebhookHandler, memoryStore, StayhookClient, type WebhookHandler } from "stayhook";
import { createSandbox } from "stayhook/testing";

/** Makes the names that the text around a block introduces: a client of a sandbox, a store, a handler. */
export async function makeGiven() {
  const sandbox = createSandbox({ seed: 1 });
  const { url: platformUrl } = await sandbox.listen();
  await sandbox.bookings.create({ bookingCode: "HX3K9", status: "Confirmed" });
  const client = new StayhookClient({ baseUrl: platformUrl, accessToken: sandbox.accessToken });
  const store = memoryStore();
  const directory = mkdtempSync(join(tmpdir(), "stayhook-docs-"));
  const made: WebhookHandler[] = [];
  const making = ((options: Parameters<typeof createWebhookHandler>[0]) => {
    const handler = createWebhookHandler(options) as WebhookHandler;
    made.push(handler);
    return handler;
  }) as typeof createWebhookHandler;
  return {
    platform: sandbox,
    client,
    store,
    createWebhookHandler: making,
    /** Handlers that the block has made. */
    made,
    /** The file does not exist yet. */
    database: join(directory, "events.db"),
    backup: join(directory, "backup.db"),
    async end() {
      for (const handler of made) await handler.close({ timeout: 0 });
      await sandbox.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

export type Given = Awaited<ReturnType<typeof makeGiven>>;
