// The probe on Workers, without any of Node's modules. The module's own scope may do no I/O, set no timer and draw no
// random numbers there: what is made in it has to do without.
import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { type ProbeOptions, probe } from "./probe.ts";

interface Context {
  waitUntil(promise: Promise<unknown>): void;
}

let baseUrl = "";
const calls: string[] = [];
const store = memoryStore();

/** One for each request, as docs/runtimes/cloudflare-workers.md says: what a request waits for, another one cannot end. */
const handlerOfRequest = () =>
  createWebhookHandler({
    client: new StayhookClient({ baseUrl, accessToken: "sandbox" }),
    store,
    on: { fallback: ({ eventId }) => void calls.push(eventId) },
  });

/** Without rechecks: they are due in a minute. */
async function unfinished(): Promise<readonly string[]> {
  const events = await store.list({ limit: 100 });
  return events
    .filter(({ source, state }) => source !== "recheck" && state !== "done")
    .map(({ eventId, state }) => `${eventId} ${state}`);
}

export default {
  async fetch(request: Request, _env: unknown, context: Context): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/hooks") return handlerOfRequest().fetch(request, context);
    if (pathname === "/calls") return Response.json({ calls, unfinished: await unfinished() });
    const options: ProbeOptions = await request.json();
    baseUrl = options.baseUrl;
    return Response.json(await probe(options));
  },
};
