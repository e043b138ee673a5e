import { describe, expect, it, vi } from "vitest";
import type { Sandbox } from "../../src/testing/index.ts";
import { call, configure, startEndpoint, startSandbox } from "./setup.ts";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe("a change", () => {
  it.each<[string, (sandbox: Sandbox, code: string) => Promise<{ bookingCode: string }>]>([
    ["a request", ({ bookings }) => bookings.request()],
    ["an instant booking", ({ bookings }) => bookings.instantBook()],
    ["an approval", ({ bookings }, code) => bookings.approve(code)],
    ["a decline", ({ bookings }, code) => bookings.decline(code)],
    ["a cancellation", ({ bookings }, code) => bookings.cancel(code)],
    ["other nights", ({ bookings }, code) => bookings.alter(code, { checkOut: "2030-07-09" })],
  ])("sends one booking notification for %s", async (_, move) => {
    const endpoint = await startEndpoint();
    const sandbox = await startSandbox();
    const prepared = await sandbox.bookings.create({ status: "Request" });
    await configure(sandbox, endpoint.url);

    const before = Date.now();
    const { bookingCode } = await move(sandbox, prepared.bookingCode);
    await sandbox.settled();

    expect(endpoint.received).toHaveLength(1);
    expect(endpoint.received[0]).toMatchObject({
      method: "POST",
      path: "/bookings",
      contentType: "application/json",
    });
    const [notification] = endpoint.notifications();
    expect(notification).toEqual({
      eventId: expect.stringMatching(uuid),
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      bookingCode,
      listingId: null,
    });
    const at = Date.parse(notification!.timestamp as string);
    expect(at).toBeGreaterThanOrEqual(before);
    expect(at).toBeLessThanOrEqual(Date.now());
  });

  it("sends a listing notification for the first publication only", async () => {
    const endpoint = await startEndpoint();
    const sandbox = await startSandbox();
    await configure(sandbox, endpoint.url);
    const { listingId } = await sandbox.listings.submit();
    const live = await sandbox.listings.create({ status: "Hidden" });
    await sandbox.listings.publish(live.listingId);
    await sandbox.listings.hide(live.listingId);
    await sandbox.settled();
    expect(endpoint.received).toHaveLength(0);

    await sandbox.listings.publish(listingId);
    await sandbox.listings.hide(listingId);
    await sandbox.listings.publish(listingId);
    await sandbox.settled();
    expect(endpoint.received.map(({ path }) => path)).toEqual(["/listings"]);
    expect(endpoint.notifications()[0]).toMatchObject({ bookingCode: null, listingId });
  });

  it("sends a notification for the publication of a listing that was hidden in review", async () => {
    const endpoint = await startEndpoint();
    const sandbox = await startSandbox();
    await configure(sandbox, endpoint.url);
    const { listingId } = await sandbox.listings.submit();
    await sandbox.listings.hide(listingId);
    await sandbox.listings.publish(listingId);
    await sandbox.settled();
    expect(endpoint.received).toHaveLength(1);
  });

  it("sends nothing when it is refused, and when a record is created", async () => {
    const endpoint = await startEndpoint();
    const sandbox = await startSandbox();
    await configure(sandbox, endpoint.url);
    const { bookingCode } = await sandbox.bookings.create({ status: "Confirmed" });
    await expect(sandbox.bookings.approve(bookingCode)).rejects.toThrow("Confirmed");
    await sandbox.bookings.create({ status: "Initiated" });
    await sandbox.settled();
    expect(endpoint.received).toHaveLength(0);
  });

  it("sends nothing without an active configuration that has a URL for the topic", async () => {
    const endpoint = await startEndpoint();
    const sandbox = await startSandbox();
    await sandbox.bookings.request();
    await configure(sandbox, endpoint.url, ["listings", "messages"]);
    await sandbox.bookings.request();
    await configure(sandbox, endpoint.url, ["bookings"], false);
    await sandbox.bookings.request();
    await configure(sandbox, endpoint.url, ["bookings"]);
    await call(sandbox, "DELETE", "/v2/webhooks/config");
    await sandbox.bookings.request();
    await sandbox.settled();
    expect(endpoint.received).toHaveLength(0);
    expect(sandbox.deliveries).toEqual([]);

    await configure(sandbox, endpoint.url, ["bookings"], false);
    await call(sandbox, "PATCH", "/v2/webhooks/config/toggle?isActive=true");
    await sandbox.bookings.request();
    await sandbox.settled();
    expect(endpoint.received).toHaveLength(1);
  });

  it("is delivered to the URL at the time of the event", async () => {
    const endpoint = await startEndpoint();
    const sandbox = await startSandbox({ delivery: { delay: 30 } });
    await configure(sandbox, `${endpoint.url}/old`);
    await sandbox.bookings.request();
    await configure(sandbox, `${endpoint.url}/new`);
    await sandbox.bookings.request();
    await sandbox.settled();
    expect(endpoint.received.map(({ path }) => path).sort()).toEqual(["/new/bookings", "/old/bookings"]);
  });

  it("resolves to a readable record before the answer to its notification", async () => {
    let answer = () => {};
    const endpoint = await startEndpoint((response) => {
      answer = () => response.end();
    });
    const sandbox = await startSandbox();
    await configure(sandbox, endpoint.url);
    const booking = await sandbox.bookings.request();
    expect((await call(sandbox, "GET", `/v2/bookings/${booking.bookingCode}`)).body).toEqual(booking);

    await vi.waitFor(() => expect(endpoint.received).toHaveLength(1));
    expect(sandbox.deliveries[0]).toMatchObject({ status: undefined, error: undefined, duration: undefined });
    let settled = false;
    const settling = sandbox.settled().then(() => {
      settled = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(settled).toBe(false);
    answer();
    await settling;
    expect(sandbox.deliveries[0]).toMatchObject({ status: 200, duration: expect.any(Number) });
  });
});

describe("send", () => {
  it.each([
    [{ bookingCode: "B1", listingId: null }, "bookings"],
    [{ bookingCode: null, listingId: 7 }, "listings"],
    [{ bookingCode: null, listingId: null }, "messages"],
    [{}, "messages"],
    [[1], "messages"],
    [null, "messages"],
  ])("delivers %j as it is, to %s", async (notification, topic) => {
    const endpoint = await startEndpoint();
    const sandbox = await startSandbox();
    await configure(sandbox, endpoint.url, ["bookings", "listings", "messages"]);
    const delivery = await sandbox.send(notification);
    expect(delivery).toMatchObject({ topic, url: `${endpoint.url}/${topic}`, status: 200, attempt: 1 });
    expect(endpoint.received[0]?.path).toBe(`/${topic}`);
    expect(endpoint.notifications()).toEqual([notification]);
  });

  it("delivers a string as the body itself", async () => {
    const endpoint = await startEndpoint((response) => response.writeHead(400).end());
    const sandbox = await startSandbox();
    expect(await sandbox.send("{not json", { url: endpoint.url })).toMatchObject({
      status: 400,
      notification: "{not json",
      eventId: undefined,
      topic: "messages",
    });
    expect(endpoint.received[0]?.body).toBe("{not json");
  });

  it("takes a topic and a URL, whatever the configuration", async () => {
    const endpoint = await startEndpoint();
    const sandbox = await startSandbox();
    await configure(sandbox, endpoint.url, ["bookings", "payments"]);
    const notification = { eventId: "e1", bookingCode: "B1" };
    expect(await sandbox.send(notification, { topic: "payments" })).toMatchObject({
      eventId: "e1",
      topic: "payments",
      url: `${endpoint.url}/payments`,
    });
    expect(await sandbox.send(notification, { url: `${endpoint.url}/here?key=1` })).toMatchObject({
      topic: "bookings",
      status: 200,
    });
    expect(endpoint.received.map(({ path }) => path)).toEqual(["/payments", "/here?key=1"]);
  });

  it("copies the notification at the call", async () => {
    const endpoint = await startEndpoint();
    const sandbox = await startSandbox({ delivery: { delay: 10 } });
    const notification = { eventId: "before" };
    const sending = sandbox.send(notification, { url: endpoint.url });
    notification.eventId = "after";
    expect(await sending).toMatchObject({ eventId: "before", notification: { eventId: "before" } });
    expect(endpoint.notifications()).toEqual([{ eventId: "before" }]);
  });

  it("refuses a notification without a destination, and wrong URLs", async () => {
    const endpoint = await startEndpoint();
    const sandbox = await startSandbox();
    const issues = (path: string) =>
      expect.objectContaining({ issues: [expect.objectContaining({ path: [path] })] });
    await expect(sandbox.send({})).rejects.toEqual(issues("topic"));
    await configure(sandbox, endpoint.url, ["bookings"]);
    await expect(sandbox.send({})).rejects.toEqual(issues("topic"));
    await expect(sandbox.send({}, { topic: "constructor" })).rejects.toEqual(issues("topic"));
    await call(sandbox, "PATCH", "/v2/webhooks/config/toggle?isActive=false");
    await expect(sandbox.send({ bookingCode: "B1" })).rejects.toEqual(issues("topic"));
    await expect(sandbox.send({}, { url: "http://example.com/" })).rejects.toEqual(issues("url"));
    await expect(sandbox.send({}, { url: "nowhere" })).rejects.toEqual(issues("url"));
    await expect(sandbox.send({ size: 1n }, { url: endpoint.url })).rejects.toThrow("JSON");
    expect(endpoint.received).toHaveLength(0);
  });
});
