import { StayhookClient } from "stayhook";
import { createSandbox, type SandboxDelivery } from "stayhook/testing";
import { expect, onTestFinished, test } from "vitest";

function open(options: Parameters<typeof createSandbox>[0] = {}) {
  const sandbox = createSandbox({ seed: 1, accounts: ["a17", "b2"], ...options });
  onTestFinished(() => sandbox.close());
  const taken: string[] = [];
  sandbox.deliverTo(async (request) => {
    taken.push(new URL(request.url).pathname);
    return new Response();
  });
  const { fetch } = sandbox;
  const client = (accessToken: string) =>
    new StayhookClient({ baseUrl: "https://sandbox.example", accessToken, fetch, maxRetries: 0 });
  return { sandbox, taken, client, of: (id: string) => client(sandbox.account(id).accessToken) };
}

test("each account has a token, and sees its own records and configuration alone", async () => {
  const { sandbox, client, of } = open();
  expect(sandbox.accounts).toEqual(["a17", "b2"]);
  expect(sandbox.account("a17")).toMatchObject({ accountId: "a17", accessToken: "sandbox-token-a17" });
  const { bookings, listings } = sandbox.account("a17");
  await listings.create({ listingId: 7, status: "Published" });
  await bookings.create({ bookingCode: "HX1", status: "Confirmed", listingId: 7 });
  expect((await of("a17").bookings.get("HX1")).status).toBe("Confirmed");
  await expect(of("b2").bookings.get("HX1")).rejects.toMatchObject({ status: 404 });
  expect(await of("b2").listings.list()).toEqual([]);
  await of("a17").webhookConfig.ensure({ endpoints: "https://app.example/a17" });
  expect(await of("b2").webhookConfig.get()).toBeUndefined();
  for (const token of ["sandbox-token", "sandbox-token-c3"])
    await expect(client(token).listings.list()).rejects.toMatchObject({ status: 401 });
  // One code may be in two accounts.
  await sandbox.account("b2").bookings.create({ bookingCode: "HX1", status: "Cancelled" });
  expect((await of("a17").bookings.get("HX1")).status).toBe("Confirmed");
});

test("a notification goes to the endpoint of its account, and says whose it is", async () => {
  const { sandbox, taken, of } = open();
  for (const id of ["a17", "b2"])
    await of(id).webhookConfig.ensure({ endpoints: { bookings: `https://app.example/${id}` } });
  const one = await sandbox.account("a17").bookings.instantBook();
  const other = await sandbox.account("b2").bookings.instantBook();
  await sandbox.settled();
  expect(taken).toEqual(["/a17", "/b2"]);
  expect(one.bookingCode).not.toBe(other.bookingCode);
  const ofAccount = ({ account }: SandboxDelivery) => account;
  expect(sandbox.deliveries.map(ofAccount)).toEqual(["a17", "b2"]);
  expect(sandbox.account("b2").deliveries.map(ofAccount)).toEqual(["b2"]);
  const [first, second] = sandbox.deliveries;
  expect(first?.eventId).not.toBe(second?.eventId);
  await sandbox.redeliver(second!.eventId!);
  expect(taken).toEqual(["/a17", "/b2", "/b2"]);
  expect(sandbox.account("b2").deliveries).toHaveLength(2);
});

test("a fault is for one account, and a fault of the sandbox is for all", async () => {
  const { sandbox, of } = open();
  sandbox.account("a17").faults.set([{ status: 401 }]);
  await expect(of("a17").listings.list()).rejects.toMatchObject({ status: 401 });
  expect(await of("b2").listings.list()).toEqual([]);
  sandbox.account("a17").faults.clear();
  expect(await of("a17").listings.list()).toEqual([]);
  sandbox.faults.set([{ status: 503 }]);
  for (const id of ["a17", "b2"]) await expect(of(id).listings.list()).rejects.toMatchObject({ status: 503 });
  const requests = sandbox.account("b2").requests.map(({ account, status }) => [account, status]);
  expect(requests).toEqual([
    ["b2", 200],
    ["b2", 503],
  ]);
});

test("with accounts, the sandbox's own records are an error that names the call", async () => {
  const { sandbox } = open();
  for (const member of ["bookings", "listings", "webhookConfig", "accessToken"] as const)
    expect(() => sandbox[member]).toThrow(`Call sandbox.account("a17").${member}, or name another account.`);
  await expect(sandbox.send({})).rejects.toThrow('Call sandbox.account("a17").send');
  expect(() => sandbox.account("c3")).toThrow("account: must be an account of the sandbox: a17, b2");
  const plain = createSandbox();
  expect(plain.accounts).toEqual([]);
  expect(() => plain.account("a17")).toThrow("the sandbox has no accounts");
});

test.each([[[]], [["a b"]], [["a17", "a17"]], ["a17"], [[7]]])("refuses the accounts %j", (accounts) => {
  expect(() => createSandbox({ accounts: accounts as never })).toThrow(/accounts/);
});

test("the page shows one account, and its buttons act on this account", async () => {
  const { sandbox } = open();
  const { url } = await sandbox.listen();
  await sandbox.account("a17").bookings.create({ bookingCode: "ONLYA", status: "Confirmed" });
  await sandbox.account("b2").bookings.create({ bookingCode: "ONLYB", status: "Confirmed" });
  const page = async (query: string) => (await fetch(`${url}/${query}`)).text();
  expect(await page("")).toContain("ONLYA");
  expect(await page("")).not.toContain("ONLYB");
  const shown = await page("?account=b2");
  expect(shown).toContain("ONLYB");
  expect(shown).not.toContain("ONLYA");
  expect(shown).toContain('<a href="?account=b2" aria-current="page">b2</a>');
  const cookie = (await fetch(`${url}/?account=b2`)).headers.get("set-cookie")?.split(";")[0] ?? "";
  const form = await (await fetch(`${url}/?account=b2`, { headers: { cookie } })).text();
  const csrf = /name="csrf" value="([^"]*)"/.exec(form)?.[1] ?? "";
  await fetch(`${url}/?account=b2`, {
    method: "POST",
    headers: { cookie, origin: url, "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ csrf, do: "cancel", booking: "ONLYB" }),
  });
  expect(sandbox.account("b2").bookings.get("ONLYB")?.status).toBe("Cancelled");
});

test("the page lists the deliveries and requests of one account, and its links keep the account", async () => {
  const { sandbox, of } = open();
  const { url } = await sandbox.listen();
  for (const id of ["a17", "b2"])
    await of(id).webhookConfig.ensure({ endpoints: { bookings: `https://app.example/${id}` } });
  const { bookingCode } = await sandbox.account("b2").bookings.instantBook();
  await sandbox.settled();
  await of("b2").bookings.get(bookingCode);
  const page = async (id: string) => (await fetch(`${url}/?account=${id}`)).text();
  const [{ eventId } = {}] = sandbox.account("b2").deliveries;
  expect(await page("b2")).toContain(`href="?account=b2&amp;event=${eventId}"`);
  expect(await page("b2")).toContain(`GET /v2/bookings/${bookingCode}`);
  expect(await page("a17")).toContain("No deliveries yet.");
  expect(await page("a17")).not.toContain(bookingCode);
});

test("what an account sends is its own, and the draws of its faults as well", async () => {
  const { sandbox, of } = open();
  const { account } = await sandbox.account("b2").send({}, { url: "https://app.example/b2" });
  expect(account).toBe("b2");
  const drawn = async (id: string) => {
    sandbox.account(id).faults.set([{ status: 503, rate: 0.5 }]);
    for (let n = 0; n < 40; n += 1)
      await of(id)
        .listings.list()
        .catch(() => undefined);
    return sandbox.account(id).requests.map(({ status }) => status);
  };
  expect(await drawn("a17")).not.toEqual(await drawn("b2"));
});

test("the token of each account opens the page that other machines can reach", async () => {
  const { sandbox } = open({ accessToken: "own" });
  const { url } = await sandbox.listen({ host: "0.0.0.0" });
  const statusWith = async (token: string) =>
    (await fetch(url, { headers: { authorization: `Bearer ${token}` } })).status;
  expect([await statusWith("own-a17"), await statusWith("own-b2")]).toEqual([200, 200]);
  expect(await statusWith("own")).toBe(401);
});
