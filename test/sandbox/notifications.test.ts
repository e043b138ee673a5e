import { describe, expect, it, vi } from "vitest";
import type { Sandbox, SandboxOptions } from "../../src/testing/index.ts";
import { eventually } from "../support/eventually.ts";
import { call, configure, startEndpoint, startSandbox } from "./setup.ts";

async function start(options: SandboxOptions = {}, answer?: Parameters<typeof startEndpoint>[0]) {
  const endpoint = await startEndpoint(answer);
  const sandbox = await startSandbox(options);
  const paths = () => endpoint.received.map(({ path }) => path);
  return { endpoint, sandbox, paths };
}

describe("a change", () => {
  it.each<[string, (sandbox: Sandbox, code: string) => Promise<{ bookingCode: string }>]>([
    ["a request", ({ bookings }) => bookings.request()],
    ["an instant booking", ({ bookings }) => bookings.instantBook()],
    ["an approval", ({ bookings }, code) => bookings.approve(code)],
    ["a decline", ({ bookings }, code) => bookings.decline(code)],
    ["a cancellation", ({ bookings }, code) => bookings.cancel(code)],
    ["other nights", ({ bookings }, code) => bookings.alter(code, { checkOut: "2030-07-09" })],
  ])("sends one booking notification for %s", async (_, move) => {
    const { endpoint, sandbox } = await start();
    const prepared = await sandbox.bookings.create({ status: "Request" });
    await configure(sandbox, endpoint.url);
    const before = Date.now();
    const { bookingCode } = await move(sandbox, prepared.bookingCode);
    await sandbox.settled();
    expect(endpoint.received).toMatchObject([
      { method: "POST", path: "/bookings", contentType: "application/json" },
    ]);
    const [notification] = endpoint.notifications();
    expect(notification).toEqual({
      eventId: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      bookingCode,
      listingId: null,
    });
    const at = Date.parse(notification!.timestamp as string);
    expect(at).toBeGreaterThanOrEqual(before);
    expect(at).toBeLessThanOrEqual(Date.now());
  });

  it("sends a listing notification for the first publication after the review only", async () => {
    const { endpoint, sandbox } = await start();
    const { listings } = sandbox;
    await configure(sandbox, endpoint.url);
    const { listingId: live } = await listings.create({ status: "Hidden" });
    await listings.publish(live);
    await listings.hide(live);
    const { listingId } = await listings.submit();
    const { listingId: hidden } = await listings.submit();
    await sandbox.settled();
    expect(endpoint.received).toEqual([]);
    await listings.publish(listingId);
    await listings.hide(listingId);
    await listings.publish(listingId);
    await listings.hide(hidden);
    await listings.publish(hidden);
    await sandbox.settled();
    const sent = endpoint.notifications().map(({ listingId }) => listingId as number);
    expect(sent.sort()).toEqual([listingId, hidden].sort());
    expect(endpoint.notifications()[0]).toMatchObject({ bookingCode: null });
  });

  it("sends nothing when it is refused, when a record is created, and without an active URL for the topic", async () => {
    const { endpoint, sandbox, paths } = await start();
    await sandbox.bookings.request();
    await configure(sandbox, endpoint.url, ["listings", "messages"]);
    await sandbox.bookings.request();
    await configure(sandbox, endpoint.url, ["bookings"]);
    await call(sandbox, "DELETE", "/v2/webhooks/config");
    await sandbox.bookings.request();
    await configure(sandbox, endpoint.url, ["bookings"], false);
    await sandbox.bookings.request();
    await sandbox.settled();
    expect(sandbox.deliveries).toEqual([]);
    await call(sandbox, "PATCH", "/v2/webhooks/config/toggle?isActive=true");
    const { bookingCode } = await sandbox.bookings.create({ status: "Confirmed" });
    await expect(sandbox.bookings.approve(bookingCode)).rejects.toThrow("Confirmed");
    await sandbox.settled();
    expect(paths()).toEqual([]);
    await sandbox.bookings.request();
    await sandbox.settled();
    expect(paths()).toEqual(["/bookings"]);
  });

  it("is delivered to the URL at the time of the event", async () => {
    const { endpoint, sandbox, paths } = await start({ delivery: { delay: 30 } });
    for (const version of ["old", "new"]) {
      await configure(sandbox, `${endpoint.url}/${version}`);
      await sandbox.bookings.request();
    }
    await sandbox.settled();
    expect(paths().sort()).toEqual(["/new/bookings", "/old/bookings"]);
  });

  it("resolves to a readable record before the answer to its notification", async () => {
    let answer = () => {};
    const { endpoint, sandbox } = await start({}, (response) => {
      answer = () => response.end();
    });
    await configure(sandbox, endpoint.url);
    const booking = await sandbox.bookings.request();
    expect((await call(sandbox, "GET", `/v2/bookings/${booking.bookingCode}`)).body).toEqual(booking);
    await eventually(() => expect(endpoint.received).toHaveLength(1));
    expect(sandbox.deliveries[0]).toMatchObject({ status: undefined, error: undefined, duration: undefined });
    const settled = vi.fn();
    const settling = sandbox.settled().then(settled);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(settled).not.toHaveBeenCalled();
    answer();
    await settling;
    expect(sandbox.deliveries[0]).toMatchObject({ status: 200, duration: expect.any(Number) });
  });
});

describe("send", () => {
  it("delivers a notification as it is to its topic, and a string as the body itself", async () => {
    const { endpoint, sandbox, paths } = await start();
    await configure(sandbox, endpoint.url, ["bookings", "listings", "messages"]);
    for (const [notification, topic] of [
      [{ bookingCode: "B1", listingId: null }, "bookings"],
      [{ bookingCode: null, listingId: 7 }, "listings"],
      [{ bookingCode: null, listingId: null }, "messages"],
      [{}, "messages"],
      [[1], "messages"],
      [null, "messages"],
      ["{not json", "messages"],
    ] as const) {
      const delivery = await sandbox.send(notification);
      expect(delivery).toMatchObject({ topic, url: `${endpoint.url}/${topic}`, status: 200, attempt: 1 });
      expect(paths().at(-1)).toBe(`/${topic}`);
      const isText = typeof notification === "string";
      expect(endpoint.received.at(-1)?.body).toBe(isText ? notification : JSON.stringify(notification));
      if (isText) expect(delivery).toMatchObject({ notification, eventId: undefined });
    }
  });

  it("takes a topic and a URL, whatever the configuration, and copies the notification at the call", async () => {
    const { endpoint, sandbox, paths } = await start({ delivery: { delay: 10 } });
    await configure(sandbox, endpoint.url, ["bookings", "payments"]);
    const notification = { eventId: "e1", bookingCode: "B1" };
    const sending = sandbox.send(notification, { topic: "payments" });
    notification.eventId = "after";
    const url = `${endpoint.url}/payments`;
    expect(await sending).toMatchObject({ eventId: "e1", topic: "payments", url });
    expect(endpoint.notifications()).toEqual([{ eventId: "e1", bookingCode: "B1" }]);
    const there = { url: `${endpoint.url}/here?key=1` };
    expect(await sandbox.send(notification, there)).toMatchObject({ topic: "bookings", status: 200 });
    expect(paths()).toEqual(["/payments", "/here?key=1"]);
  });

  it("refuses a notification without a destination, and wrong URLs", async () => {
    const { endpoint, sandbox } = await start();
    const refused = (path: string) =>
      expect.objectContaining({ issues: [expect.objectContaining({ path: [path] })] });
    await expect(sandbox.send({})).rejects.toEqual(refused("topic"));
    await configure(sandbox, endpoint.url, ["bookings"], false);
    for (const [notification, options, path] of [
      [{}, {}, "topic"],
      [{}, { topic: "constructor" }, "topic"],
      [{ bookingCode: "B1" }, {}, "topic"],
      [{}, { url: "http://example.com/" }, "url"],
      [{}, { url: "nowhere" }, "url"],
    ] as const)
      await expect(sandbox.send(notification, options)).rejects.toEqual(refused(path));
    await expect(sandbox.send({ size: 1n }, { url: endpoint.url })).rejects.toThrow("JSON");
    expect(endpoint.received).toEqual([]);
  });
});
