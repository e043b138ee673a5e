import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Sandbox } from "stayhook/testing";

export const vendorAccounts = ["a17", "b2", "c3"];
const ADMIN_SECRET = randomBytes(32).toString("hex");
/** DATABASE_URL is empty, so that the example does not write into your database. */
export const vendorEnvironment = {
  ADMIN_SECRET,
  ACCOUNTS_KEY: randomBytes(32).toString("hex"),
  DATABASE_URL: "",
};

/** How long the example may take until a calendar is as it should be, in ms. */
const PATIENCE = 60_000;

/** Lets three accounts join. One of them loses its token and gets a new one, and one of them leaves. */
export async function playVendor(sandbox: Sandbox, url: string): Promise<void> {
  const ask = (method: string, path: string, body?: object) =>
    fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN_SECRET}`, "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) }),
    });
  const show = async (response: Response) =>
    console.log(`  answered ${response.status} ${await response.text()}`);
  const join = async (account: string) =>
    show(await ask("POST", "/accounts", { account, token: sandbox.account(account).accessToken }));
  const blocked = async (account: string, nights: number) => {
    for (const end = Date.now() + PATIENCE; Date.now() < end; await sleep(100)) {
      const calendar = (await (await ask("GET", `/accounts/${account}/calendar`)).json()) as unknown[];
      if (calendar.length === nights) return;
    }
    throw new Error(`The calendar of ${account} did not get ${nights} stays.`);
  };
  const book = (account: string) => sandbox.account(account).bookings.instantBook({ listingId: 7 });

  for (const account of vendorAccounts) {
    console.log(`\n${account} joins`);
    await join(account);
  }
  console.log("\na guest books in each account");
  for (const account of vendorAccounts) await book(account);
  for (const account of vendorAccounts) await blocked(account, 1);

  console.log("\nthe platform refuses the token of b2, and a guest books in each account");
  sandbox.account("b2").faults.set([{ status: 401 }]);
  for (const account of vendorAccounts) await book(account);
  await blocked("a17", 2);
  await blocked("c3", 2);
  await show(await ask("GET", "/accounts"));

  console.log("\nb2 gets a new token, so its booking is handled, too");
  sandbox.account("b2").faults.clear();
  await join("b2");
  await blocked("b2", 2);

  console.log("\nc3 leaves");
  await show(await ask("DELETE", "/accounts/c3"));
  await blocked("c3", 0);
  await show(await ask("GET", "/accounts"));
  await sandbox.settled();
}
