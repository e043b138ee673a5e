import { expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { cli, closed, platform, receiver, serve, servedAppOf, start } from "./support.ts";

test("sends one notification as the platform does, and ends with 0 if the answer is 200", async () => {
  const { sandbox, env } = await platform();
  const { url, heard, webhooks } = await servedAppOf(env, "s3cret");
  await sandbox.bookings.instantBook({ bookingCode: "HX3K9" });
  await sandbox.listings.create({ listingId: 7, status: "Hidden" });
  for (const what of [
    ["booking.Confirmed", "HX3K9"],
    ["booking", "--booking", "HX3K9"],
    ["booking:HX3K9"],
    ["listing", "7"],
    ["listing.unknown", "7"],
    ["message"],
  ]) {
    const { code, stdout, stderr } = await cli(["trigger", ...what], { env: { STAYHOOK_TARGET: url } });
    expect({ code, stderr }, what.join(" ")).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^[\w-]{36} -> http:\/\/127\.0\.0\.1:\d+: 200 in \d+ ms\n$/);
    expect(stdout).not.toContain("s3cret");
  }
  await webhooks.drain();
  const [booking, listing] = ["booking.Confirmed by webhook", "listing.Hidden by webhook"];
  expect(heard.sort()).toEqual([booking, booking, booking, listing, listing, "message by webhook"]);
});

test("sends to the configured endpoint of the topic by default", async () => {
  const { sandbox, env } = await platform();
  const { url, heard, webhooks } = await servedAppOf(env, "s3cret");
  await sandbox.bookings.create({ bookingCode: "HX3K9", status: "Declined" });
  expect(await cli(["trigger", "booking", "HX3K9"], { env })).toMatchObject({ code: 4 });
  await cli(["config", "set", "--bookings", url], { env });
  expect(await cli(["trigger", "booking", "HX3K9"], { env })).toMatchObject({ code: 0 });
  expect(await cli(["trigger", "listing", "7"], { env })).toMatchObject({ code: 4 });
  await webhooks.drain();
  expect(heard).toEqual(["booking.Declined by webhook"]);
});

test("--event-id sends a duplicate", async () => {
  const { env } = await platform();
  const { url, webhooks } = await servedAppOf(env, "s3cret");
  const eventId = "6F1F7A1E-9A40-4D43-8F0A-0A3F4D1F2B11";
  for (let time = 0; time < 2; time += 1)
    expect(await cli(["trigger", "message", "--event-id", eventId, "--to", url])).toMatchObject({ code: 0 });
  expect(await webhooks.health()).toMatchObject({ counts: { pending: 1 } });
});

test("makes up a new code each time if none is given", async () => {
  const { env } = await platform();
  const { url } = await servedAppOf(env, "s3cret");
  const sent = async () =>
    JSON.parse((await cli(["trigger", "booking.Request", "--to", url, "--json"])).stdout).notification;
  const [first, second] = [await sent(), await sent()];
  expect(first.bookingCode).toMatch(/^TEST\d{8}$/);
  expect(second.bookingCode).not.toBe(first.bookingCode);
});

test("ends with 1 for another answer and with 5 for none, and does not show the secret", async () => {
  const { env } = await platform();
  const { url } = await servedAppOf(env, "s3cret");
  const refused = await cli(["trigger", "message", "--to", url.replace("s3cret", "wr0ng"), "--json"]);
  expect(refused.code).toBe(1);
  expect(JSON.parse(refused.stdout)).toMatchObject({ status: 401, error: null, to: new URL(url).origin });
  expect(refused.stdout).not.toContain("wr0ng");
  const away = await cli(["trigger", "message"], {
    env: { STAYHOOK_TARGET: `${await closed()}/?key=s3cret` },
  });
  expect(away).toMatchObject({ code: 5, stderr: "" });
  expect(away.stdout).toContain("ECONNREFUSED");
  expect(away.stdout).not.toContain("s3cret");
});

test("sends JSON with the given id and time, and follows no redirect", async () => {
  const sent: unknown[] = [];
  const to = await serve(async (request, response) => {
    const { method, url, headers } = request;
    const body = JSON.parse((await request.setEncoding("utf8").toArray()).join(""));
    sent.push({ method, url, type: headers["content-type"], body });
    response.writeHead(307, { location: "/elsewhere" }).end();
  });
  const [eventId, timestamp] = ["6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11", "2026-11-21T10:00:00Z"];
  const args = ["--event-id", eventId, "--timestamp", timestamp, "--to", to];
  expect(await cli(["trigger", "listing", "7", ...args])).toMatchObject({ code: 1, stderr: "" });
  const body = { eventId, timestamp, bookingCode: null, listingId: 7 };
  expect(sent).toEqual([{ method: "POST", url: "/?topic=listings", type: "application/json", body }]);
});

test("Ctrl-C ends the command while the endpoint does not answer", async () => {
  let asked = false;
  const to = await serve(() => {
    asked = true;
  });
  const running = start(["trigger", "message", "--to", to]);
  await eventually(() => expect(asked).toBe(true));
  running.interrupt();
  expect(await running.ended).toEqual({ code: 130, stdout: "", stderr: "" });
});

test("--to and STAYHOOK_TARGET get the topic in the query, unless they have one", async () => {
  const { url, urls } = await receiver();
  for (const [args, query] of [
    [["trigger", "booking", "--to", `${url}?key=s3cret`], "?key=s3cret&topic=bookings"],
    [["trigger", "listing"], "?topic=listings"],
    [["trigger", "message", "--to", `${url}?topic=other`], "?topic=other"],
  ] as const) {
    expect(await cli(args, { env: { STAYHOOK_TARGET: url } })).toMatchObject({ code: 0 });
    expect(urls.at(-1)).toBe(`/${query}`);
  }
});
