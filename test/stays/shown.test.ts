// What people see of the things of a stay: `webhooks.things`, the command line, and the console.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createWebhookHandler, StayhookClient } from "stayhook";
import { createConsole } from "stayhook/console";
import { sqliteStore } from "stayhook/sqlite";
import { createStays, hold, once } from "stayhook/stays";
import { createSandbox } from "stayhook/testing";
import { expect, onTestFinished, test } from "vitest";
import { cli } from "../cli/support.ts";

const far = { checkIn: "2099-07-01", checkOut: "2099-07-04" };

/** A booking with a hold that is on, one that fails, and a once that is planned. */
async function played() {
  const folder = mkdtempSync(join(tmpdir(), "stayhook-shown-"));
  const file = join(folder, "events.db");
  const sandbox = createSandbox({ seed: 1 });
  const { url } = await sandbox.listen();
  await sandbox.bookings.create({ bookingCode: "HX3K9", status: "Confirmed", listingId: 7, ...far });
  const store = sqliteStore(file, { durability: "process-crash" });
  const webhooks = createWebhookHandler({
    client: new StayhookClient({ baseUrl: url, accessToken: sandbox.accessToken }),
    store,
    verify: false,
    timeZone: "Europe/Lisbon",
    autoStart: false,
    logger: () => {},
    stays: createStays({
      want: ({ checkOut }, { at }) => [
        hold("nights"),
        hold("door-code"),
        once("cleaning", { at: at(checkOut, "11:00") }),
      ],
      apply: {
        nights: { begin: () => "1234-secret", end: () => {} },
        "door-code": {
          begin: () => {
            throw new Error("the lock of anna@example.com is away");
          },
          end: () => {},
        },
        cleaning: () => {},
      },
    }),
    on: {},
  });
  onTestFinished(async () => {
    await webhooks.close();
    await store.close();
    await sandbox.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const body = { eventId: crypto.randomUUID(), timestamp: new Date(), bookingCode: "HX3K9", listingId: null };
  await webhooks.receive({
    method: "POST",
    url: "/?topic=bookings",
    headers: {},
    body: JSON.stringify(body),
  });
  await webhooks.drain();
  const env = { STAYHOOK_BASE_URL: url, STAYHOOK_ACCESS_TOKEN: sandbox.accessToken };
  return { webhooks, store, file, env, sandbox };
}

test("webhooks.things lists what is on, what fails, and what is to come, with the values", async () => {
  const { webhooks } = await played();
  const stay = { bookingCode: "HX3K9", listingId: 7, nights: 3, ...far };
  expect(await webhooks.things("booking:HX3K9")).toEqual([
    {
      name: "nights",
      listingId: 7,
      stay,
      state: "on",
      at: expect.any(Date),
      value: "1234-secret",
      error: undefined,
    },
    {
      ...{ name: "door-code", listingId: 7, stay, state: "failing", at: expect.any(Date), value: undefined },
      error: expect.stringContaining("the lock of anna@example.com is away"),
    },
    {
      ...{ name: "cleaning", listingId: 7, stay, state: "planned", value: undefined, error: undefined },
      at: new Date("2099-07-04T10:00:00Z"),
    },
  ]);
  expect(await webhooks.things("booking:NONE")).toEqual([]);
  for (const ref of ["listing:7", "booking: HX3K9", "booking:", "a17/booking:HX3K9", undefined])
    await expect(webhooks.things(ref as string)).rejects.toThrow("ref: must be booking:<code>");
});

test("the command booking shows the things of a store, without values", async () => {
  const { file, env, sandbox } = await played();
  const { code, stdout } = await cli(["booking", "hx3k9".toUpperCase(), "--store", file, "--json"], { env });
  expect(code).toBe(0);
  const { status, things } = JSON.parse(stdout);
  expect(status).toBe("Confirmed");
  expect(things.map(({ name, state }: { name: string; state: string }) => [name, state])).toEqual([
    ["nights", "on"],
    ["door-code", "failing"],
    ["cleaning", "planned"],
  ]);
  expect(stdout).not.toContain("1234-secret");
  const shown = await cli(["booking", "HX3K9", "--store", file], { env });
  expect(shown.stdout).toMatch(/cleaning\t7\t2099-07-01\t2099-07-04\tplanned\t2099-07-04T10:00:00\.000Z/);
  expect(shown.stdout).not.toContain("1234-secret");
  expect((await cli(["booking", "HX3K9"], { env })).stdout).not.toContain("cleaning");
  // The things of a booking that the platform no longer has are still there.
  sandbox.faults.set([{ route: "GET /v2/bookings/{bookingCode}", status: 404 }]);
  const gone = await cli(["booking", "HX3K9", "--store", file], { env });
  expect([gone.code, gone.stdout]).toEqual([0, expect.stringMatching(/no booking HX3K9(?:.|\n)*nights\t7/)]);
  expect((await cli(["booking", "NONE", "--store", file], { env })).code).toBe(4);
  // In an outage, they are shown before the error.
  sandbox.faults.set([{ route: "GET /v2/bookings/{bookingCode}", status: 503 }]);
  const out = await cli(["booking", "HX3K9", "--store", file], { env });
  expect([out.code, out.stdout]).toEqual([5, expect.stringMatching(/^nights\t7/)]);
  expect(out.stderr).toContain("was answered with 503");
});

test("the command line names what is on before it erases, and erases it", async () => {
  const { file, store } = await played();
  const asked = await cli(["events", "erase", "booking:HX3K9", "--yes", "--store", file]);
  expect(asked.stderr).toContain("nights at listing 7 is on, and the deletion does not end it.");
  expect(asked.stderr).toContain("door-code at listing 7 is on"); // it may have begun
  expect(asked.stderr).not.toContain("cleaning");
  expect(asked.code).toBe(0);
  expect(await store.ledgerOf("booking:HX3K9")).toBeUndefined();
});

test("the booking's page in the console shows the things, without values, and the erasure names what is on", async () => {
  const { webhooks } = await played();
  const { fetch } = createConsole(webhooks, { authorize: () => true });
  const page = async (query: string) => (await fetch(new Request(`https://ops.example/?${query}`))).text();
  const shown = await page("record=booking:HX3K9");
  for (const text of ["Things of the stay", "nights", "failing", "cleaning", "planned"])
    expect(shown).toContain(text);
  for (const text of ["1234-secret", "anna@example.com"]) expect(shown).not.toContain(text);
  expect(await page("record=booking:HX3K9&personal=1")).toContain("anna@example.com");
  expect(await page("record=booking:NONE")).not.toContain("Things of the stay");
  expect(await page("confirm=erase&record=booking:HX3K9")).toContain(
    "nights at listing 7 is on, and the deletion does not end it.",
  );
});
