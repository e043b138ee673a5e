// Runs the probe on Workers without Node modules. Module scope may do no I/O, set no timer and draw no random numbers,
// so objects made there must not need them.
import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { type ProbeOptions, probe } from "./probe.ts";

interface Context {
  waitUntil(promise: Promise<unknown>): void;
}

let baseUrl = "";
const calls: string[] = [];
const store = memoryStore();

/**
 * Make one handler per request, as docs/runtimes.md says. A request cannot settle a promise that
 * another request waits for.
 */
const handlerOfRequest = () =>
  createWebhookHandler({
    client: new StayhookClient({ baseUrl, accessToken: "sandbox-token" }),
    store,
    on: { fallback: ({ eventId }) => void calls.push(eventId) },
  });

/** Returns the events that are not done. Rechecks do not count: they are due in a minute. */
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
