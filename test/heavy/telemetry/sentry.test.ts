// Plays the recipe of docs/telemetry.md with Sentry's own SDK. A transport of the test keeps all reports in this process.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import * as Sentry from "@sentry/node";
import { createWebhookHandler, memoryStore, type WebhookHandlerOptions } from "stayhook";
import { afterAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { extractBlocks } from "../../docs/extract.ts";
import { eventually } from "../../support/eventually.ts";
import { clientOf, notificationOf, platformOf } from "../../webhooks/support.ts";

interface Report {
  readonly exception: { readonly values: readonly { readonly value: string }[] };
  readonly user?: { readonly id: string };
  readonly request?: { readonly url: string };
  readonly tags?: Readonly<Record<string, string>>;
  readonly breadcrumbs?: readonly { readonly message?: string }[];
}

const reports: Report[] = [];
const sent: string[] = [];
Sentry.init({
  dsn: "http://key@127.0.0.1:9/1",
  tracesSampleRate: 1,
  transport: (options) =>
    Sentry.createTransport(options, async ({ body }) => {
      const text = typeof body === "string" ? body : Buffer.from(body).toString();
      sent.push(text);
      for (const line of text.split("\n").filter(Boolean)) {
        const item = JSON.parse(line) as Report;
        if (item.exception) reports.push(item);
      }
      return { statusCode: 200 };
    }),
});
beforeEach(() => {
  reports.length = 0;
  sent.length = 0;
});
afterAll(() => Sentry.close(1000));

const USERS = ["first", "second", "third"];

/** The recipe, as a function of what the text around it introduces. */
const recipe = new Function(
  ...["Sentry", "createWebhookHandler", "client", "store"],
  extractBlocks(["docs/telemetry.md"])
    .find(({ name }) => name === "sentry")!
    .code.replace(/^import .*$/m, ""),
);

/** Serves the recipe's handler, with callbacks that fail, and sends it a request of each user. */
async function played(own: Partial<WebhookHandlerOptions>) {
  // Sentry reports an error with the same message and stack only once.
  const message = `no code, ${JSON.stringify(own)}`;
  const platform = platformOf();
  const on = {
    "booking.Confirmed": ({ booking: { bookingCode } }: { booking: { bookingCode: string } }) => {
      Sentry.addBreadcrumb({ message: `callback of ${bookingCode}` });
      if (bookingCode === "third") throw new Error(message);
    },
  };
  const made: ReturnType<typeof createWebhookHandler>[] = [];
  const make = (options: WebhookHandlerOptions) =>
    made.push(createWebhookHandler({ ...options, on, verify: false, maxAttempts: 1, ...own } as never));
  recipe(Sentry, make, clientOf(platform), memoryStore());
  const [webhooks] = made as [(typeof made)[0]];
  onTestFinished(() => webhooks.close({ timeout: 0 }));
  // An adapter would start the processing here, outside of any request.
  const server = createServer(async (request, response) => {
    const { method, url, headers } = request;
    Sentry.setUser({ id: String(headers["x-user"]) });
    Sentry.addBreadcrumb({ message: `request of ${headers["x-user"]}` });
    const { status } = await webhooks.receive({ method, url, headers, body: request } as never);
    response.writeHead(status).end();
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  for (const user of USERS) {
    platform.booking(user, "Confirmed");
    const { status } = await fetch(`http://127.0.0.1:${port}/of-${user}?key=s3cret-of-a-test`, {
      method: "POST",
      headers: { "x-user": user },
      body: JSON.stringify(notificationOf({ bookingCode: user })),
    });
    expect(status).toBe(200);
  }
  await eventually(async () => {
    await Sentry.flush(100);
    expect(reports).toHaveLength(1);
  });
  const [report] = reports as [Report];
  expect(report.exception.values[0]?.value).toBe(message);
  expect(report.tags).toMatchObject({ "stayhook.ref": "booking:third" });
  const crumbs = report.breadcrumbs?.flatMap(({ message }) => message ?? []) ?? [];
  expect(crumbs.filter((crumb) => /(request|callback) of/.test(crumb))).toContain("callback of third");
  expect(crumbs.filter((crumb) => /first|second/.test(crumb))).toEqual([]);
  return report;
}

test("in the background, the error of the third event is reported under no user and no URL", async () => {
  const { user, request } = await played({});
  expect([user?.id, request?.url]).toEqual([undefined, undefined]);
});

test("inline, the error of the third event is reported under the user and the URL of its own request", async () => {
  const { user, request } = await played({ processing: "inline" });
  expect(user?.id).toBe("third");
  expect(request?.url).toMatch(/\/of-third\?key=\[Filtered\]$/);
  expect(sent.join("\n")).not.toContain("?key=s3cret-of-a-test");
});
