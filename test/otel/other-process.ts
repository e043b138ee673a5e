// Handles events that another process has recorded, and sends its spans to that process.
import { trace } from "@opentelemetry/api";
import { createWebhookHandler, StayhookClient } from "../../src/index.ts";
import { telemetry } from "../../src/otel/otel.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";
import { makeSdk } from "./sdk.ts";

const { path, baseUrl, accessToken } = JSON.parse(process.argv[2] ?? "{}") as {
  path: string;
  baseUrl: string;
  accessToken: string;
};
const { tracer, instruments, spans, end } = makeSdk();
const otel = telemetry(instruments);
const store = sqliteStore(path);
const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl, accessToken, telemetry: otel }),
  store,
  on: {
    "booking.Request": async () => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      tracer.startSpan("own work").end();
    },
  },
  telemetry: otel,
  autoStart: false,
});
// An unrelated request has started the processing.
await tracer.startActiveSpan("a request", async (span) => {
  await webhooks.drain();
  span.end();
});
await webhooks.close();
await store.close();
process.send?.({ spans: spans(), active: trace.getActiveSpan() !== undefined });
await end();
process.disconnect?.();
