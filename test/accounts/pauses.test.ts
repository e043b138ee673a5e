// The observations of pauses in a handler with accounts.
import { randomUUID } from "node:crypto";
import { createWebhookHandler, memoryStore, type Observation } from "stayhook";
import { expect, test } from "vitest";
import { advance, clientOf, MINUTE, platformOf, useFakeTime } from "../webhooks/support.ts";

useFakeTime();

function setup() {
  const platform = platformOf();
  const seen: Observation[] = [];
  const webhooks = createWebhookHandler({
    client: clientOf(platform, { accessToken: ({ account }) => `token-of-${account}` }),
    store: memoryStore(),
    accountFrom: { query: "account" },
    verify: false,
    logger: () => {},
    observe: (event) => void seen.push(event),
    on: { fallback: () => {} },
  });
  const notify = (account: string, bookingCode: string) =>
    webhooks.receive({
      method: "POST",
      url: `/?account=${account}`,
      headers: {},
      body: { eventId: randomUUID(), timestamp: "2026-12-01T10:00:00Z", bookingCode },
    });
  const pauses = () =>
    seen.flatMap((event) =>
      event.kind === "paused" || event.kind === "resumed"
        ? [`${event.kind} ${event.scope} of ${event.account}`]
        : [],
    );
  return { platform, webhooks, notify, pauses };
}

test("a pause of everything names no account, although one record decided it", async () => {
  const { platform, webhooks, notify, pauses } = setup();
  platform.answer("*", { status: 503 });
  webhooks.start();
  for (const [account, code] of ["a17 A", "a17 B", "a17 C", "b2 D", "b2 E"].map((each) => each.split(" ")))
    await notify(account!, code!);
  await advance();
  for (const code of ["A", "B", "C", "D", "E"]) platform.booking(code, "Confirmed");
  await advance(MINUTE);
  expect(new Set(pauses())).toEqual(
    new Set(["paused everything of undefined", "resumed everything of undefined"]),
  );
  await webhooks.close();
});

test("a pause of an account begins and ends under its name", async () => {
  const { platform, webhooks, notify, pauses } = setup();
  platform.answer("A", { status: 401 });
  webhooks.start();
  await notify("a17", "A");
  await advance();
  platform.booking("A", "Confirmed");
  await advance(MINUTE);
  expect(pauses()).toEqual(["paused account of a17", "resumed account of a17"]);
  await webhooks.close();
});
