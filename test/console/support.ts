import { randomUUID } from "node:crypto";
import { createWebhookHandler, memoryStore, type WebhookHandlerOptions } from "stayhook";
import { type ConsoleOptions, createConsole } from "stayhook/console";
import { toNodeHandler } from "stayhook/node";
import { onTestFinished } from "vitest";
import { serve } from "../support/serve.ts";
import { clientOf, platformOf, recordingLogger } from "../webhooks/support.ts";

/** Makes a handler with a platform in memory, and its console. Events are handled only when the test asks for it. */
export function inboxOf(
  options: Partial<WebhookHandlerOptions> = {},
  consoleOptions: Partial<ConsoleOptions> = {},
) {
  const platform = platformOf();
  const logger = recordingLogger();
  const store = memoryStore();
  const webhooks = createWebhookHandler({
    client: clientOf(platform),
    on: {},
    autoStart: false,
    verify: false,
    recheckAfter: false,
    logger,
    ...options,
    store,
  });
  const inbox = createConsole(webhooks, { authorize: () => true, ...consoleOptions });
  const receive = async (fields: Readonly<Record<string, unknown>>): Promise<string> => {
    const eventId = randomUUID();
    const body = JSON.stringify({ eventId, timestamp: "2026-11-22T09:00:00Z", listingId: null, ...fields });
    const { status } = await webhooks.receive({ method: "POST", url: "/", headers: {}, body });
    if (status !== 200) throw new Error(`The notification was answered ${status}`);
    return eventId;
  };
  /** Delivers a notification of a booking in this status, and handles the event. */
  const handle = async (
    bookingCode: string,
    status: string,
    more: Readonly<Record<string, unknown>> = {},
  ) => {
    platform.booking(bookingCode, status);
    const eventId = await receive({ bookingCode, ...more });
    await webhooks.drain();
    return eventId;
  };
  onTestFinished(async () => {
    await webhooks.close();
    await store.close();
  });
  return { platform, logger, store, webhooks, inbox, receive, handle };
}

/** Serves the console of {@link inboxOf} over HTTP, and makes a browser. */
export async function servedInboxOf(...options: Parameters<typeof inboxOf>) {
  const made = inboxOf(...options);
  return { ...made, url: await serve(toNodeHandler(made.inbox)), browser: new Browser() };
}

/** A page after its redirects. */
export interface Page {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly url: string;
}

/** A browser without screen and scripts. It keeps cookies, sends forms, and follows redirects. */
export class Browser {
  cookies = new Map<string, string>();

  async get(url: string, headers: Readonly<Record<string, string>> = {}): Promise<Page> {
    return this.#fetch(url, { headers });
  }

  /** Sends the form that has this button. */
  async submit(
    url: string,
    button: string,
    more: readonly (readonly [string, string])[] = [],
  ): Promise<Page> {
    const { text } = await this.get(url);
    const form = [...text.matchAll(/<form[^>]*method="post"[\s\S]*?<\/form>/g)]
      .map(([html]) => html)
      .find((html) => new RegExp(`<button[^>]*value="${button}"`).test(html));
    if (!form) throw new Error(`${url} has no form with a button ${button}`);
    const fields = [...form.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)].map(
      ([, name = "", value = ""]) => [name, decodeEntities(value)],
    );
    return this.post(url, [...fields, ["do", button], ...more.map((pair) => [...pair])]);
  }

  async post(
    url: string,
    fields: string[][] | Record<string, string>,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Page> {
    const origin = new URL(url).origin;
    return this.#fetch(url, {
      method: "POST",
      body: new URLSearchParams(fields),
      headers: { origin, ...headers },
    });
  }

  async #fetch(
    url: string,
    init: RequestInit & { headers: Readonly<Record<string, string>> },
  ): Promise<Page> {
    const cookie = [...this.cookies].map((pair) => pair.join("=")).join("; ");
    const headers = { ...init.headers, ...(cookie !== "" && { cookie }) };
    const response = await fetch(url, { redirect: "manual", ...init, headers });
    for (const each of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(each) ?? [];
      this.cookies.set(name, value);
    }
    const location = response.headers.get("location");
    if (response.status !== 303 || location === null)
      return { status: response.status, headers: response.headers, text: await response.text(), url };
    const to = new URL(location, url).href;
    return this.get(to);
  }
}

export function decodeEntities(text: string): string {
  const entities: Readonly<Record<string, string>> = {
    amp: "&",
    lt: "<",
    gt: ">",
    quot: '"',
    "#39": "'",
    "#96": "`",
  };
  return text.replace(/&([#\w]+);/g, (_, name: string) => entities[name] ?? "");
}
