// Adds a status to the table: what is derived from the table knows it, and each place that is left to write is named.
import {
  createWebhookHandler,
  memoryStore,
  StayhookClient,
  type WebhookCallbacks,
  type WebhookEvent,
} from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { createSandbox, createTestEvent, type SandboxBooking } from "stayhook/testing";
import { afterAll, expect, onTestFinished, test, vi } from "vitest";
import { shellHelp } from "../../src/cli/sandbox-shell.ts";
import { readFilter } from "../../src/console/event-filter.ts";
import { bookingStatuses } from "../../src/models/records.ts";
import type { Status } from "../../src/models/statuses.ts";
import { verbs } from "../../src/sandbox/verbs.ts";
import { openapi } from "../../tools/openapi.ts";
import { missingPlaces } from "../../tools/status-places.ts";

// Files share a worker and its modules. Those that another file has loaded know no mock, and a later file wants none.
vi.hoisted(() => vi.resetModules());
afterAll(() => void vi.resetModules());

vi.mock("../../src/models/statuses.ts", async (original) => {
  const tables = await original<typeof import("../../src/models/statuses.ts")>();
  const archived: Status = {
    name: "Archived",
    when: "the booking is kept for the books",
    tone: "good",
    final: true,
    move: { verb: "archive", help: "the booking is put away", from: (status) => status === "Confirmed" },
  };
  return { ...tables, bookingTable: [...tables.bookingTable, archived] };
});

/** The type of what the sandbox gains by the move. */
interface WithArchive {
  archive(bookingCode: string): Promise<SandboxBooking>;
}

function openSandbox() {
  const sandbox = createSandbox({ seed: 1 });
  onTestFinished(() => sandbox.close());
  const client = new StayhookClient({
    baseUrl: "https://sandbox.example",
    accessToken: sandbox.accessToken,
    fetch: sandbox.fetch,
  });
  const bookings = sandbox.bookings as typeof sandbox.bookings & WithArchive;
  return { sandbox, client, bookings };
}

test("the status has a type of event, which a callback, a filter and a test event take", async () => {
  const { sandbox, client, bookings } = openSandbox();
  const store = memoryStore();
  const seen: WebhookEvent[] = [];
  const handle = (event: WebhookEvent) => void seen.push(event);
  // The types of this test know no such status.
  const on = {
    "booking.Archived": handle,
    "booking.unknown": () => expect.unreachable(),
  } as WebhookCallbacks;
  const webhooks = createWebhookHandler({ client, store, verify: false, autoStart: false, on });
  onTestFinished(() => webhooks.close());
  sandbox.deliverTo(webhooks.fetch);
  await client.webhookConfig.create({ isActive: true, endpoints: { bookings: "https://app.example/" } });

  const { bookingCode } = await bookings.instantBook();
  await bookings.archive(bookingCode);
  await sandbox.settled();
  await webhooks.drain();

  expect(seen.map(({ type, status }) => [type, status])).toContainEqual(["booking.Archived", "Archived"]);
  const { filter, problems } = readFilter((field) => (field === "type" ? "booking.Archived" : undefined));
  expect([filter, problems]).toEqual([{ type: "booking.Archived" }, []]);
  const event = createTestEvent("booking.Archived" as "booking.Confirmed");
  expect([event.type, event.status]).toEqual(["booking.Archived", "Archived"]);
});

test("the status ends a stay, because `holds` does not name it", () => {
  const previous = { status: "Confirmed" };
  const { stayChange } = createTestEvent("booking.Archived" as "booking.Cancelled", { previous });
  expect(stayChange).toMatchObject({ from: { nights: 3 }, to: undefined, changed: true });
});

test("the sandbox makes its move, and says which moves are possible", async () => {
  const { bookings, sandbox } = openSandbox();
  const { bookingCode } = await bookings.request();
  await expect(bookings.archive(bookingCode)).rejects.toThrow("Possible changes: approve, decline, cancel");
  await bookings.approve(bookingCode);
  expect(shellHelp).toContainEqual(["archive <code>", "the booking is put away"]);
  const { text } = await verbs.archive!.run(
    { sandbox, account: sandbox },
    new URLSearchParams({ booking: bookingCode }),
  );
  expect(text).toBe(`Booking ${bookingCode} is Archived.`);
});

test("the sandbox's page shows the button and the color", async () => {
  const { sandbox, bookings } = openSandbox();
  await sandbox.listen();
  const { bookingCode } = await bookings.instantBook();
  const page = async () => (await fetch(sandbox.url, { headers: { accept: "text/html" } })).text();
  expect(await page()).toContain(
    `<button class="small primary" name="do" value="archive" aria-label="Archive booking ${bookingCode}">Archive</button>`,
  );
  await bookings.archive(bookingCode);
  expect(await page()).toMatch(/<span class="badge good">(<[^>]+>)*Archived/);
});

test("the reconciler does not read a booking with a final status", async () => {
  const { sandbox, client } = openSandbox();
  const store = memoryStore();
  const webhooks = createWebhookHandler({ client, store, verify: false, autoStart: false, on: {} });
  onTestFinished(() => webhooks.close());
  const checkOut = new Date(Date.now() + 864e5).toISOString().slice(0, 10);
  for (const status of ["Archived", "Confirmed"]) {
    await sandbox.bookings.create({ bookingCode: status, status, checkOut });
    await store.learn(`booking:${status}`, { status, fields: { checkOut } });
  }
  const reconciler = createReconciler(webhooks);
  onTestFinished(() => reconciler.close());
  await reconciler.run();
  const paths = sandbox.requests.map(({ path }) => path);
  expect(paths).toContain("/v2/bookings/Confirmed");
  expect(paths).not.toContain("/v2/bookings/Archived");
});

test("the OpenAPI description lists it", () => {
  expect(openapi().components.schemas.Booking.properties.status).toMatchObject({ examples: bookingStatuses });
  expect(bookingStatuses).toContain("Archived");
});

test("each place that is left to write is named", () => {
  expect(missingPlaces()).toEqual([
    "docs/events.md",
    "docs/events.md, fields",
    "api/index.api.md",
    "WebhookEventMap",
    "api/testing.api.md",
  ]);
});
