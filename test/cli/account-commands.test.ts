import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { sqliteStore } from "stayhook/sqlite";
import { createSandbox } from "stayhook/testing";
import { expect, onTestFinished, test } from "vitest";
import { cli, directory } from "./support.ts";

/** A sandbox with two accounts, each with a listing and a configuration, and a file of their tokens. */
async function platform() {
  const sandbox = createSandbox({ seed: 3, accounts: ["a17", "b2"] });
  onTestFinished(() => sandbox.close());
  await sandbox.listen();
  for (const id of sandbox.accounts)
    await sandbox.account(id).listings.create({ listingId: 7, status: "Published" });
  const tokens = Object.fromEntries(sandbox.accounts.map((id) => [id, sandbox.account(id).accessToken]));
  const folder = directory();
  const file = (content: unknown): string => {
    const path = join(folder, "tokens.json");
    writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
    return path;
  };
  const env = { STAYHOOK_BASE_URL: sandbox.url };
  const ofOne = { ...env, STAYHOOK_ACCESS_TOKEN: tokens.a17 };
  return { sandbox, tokens, file, env, ofOne, store: join(folder, "events.db") };
}

test("reconcile --account makes the pass of one account; --accounts those of a file", async () => {
  const { tokens, file, env, ofOne, store } = await platform();
  const opened = sqliteStore(store);
  onTestFinished(() => opened.close());
  await opened.nextDue();
  const one = await cli(`reconcile --store ${store} --account a17 --json`, { env: ofOne });
  expect(one.code).toBe(0);
  expect(JSON.parse(one.stdout)).toMatchObject({ account: "a17", checked: 1 });
  const all = await cli(`reconcile --store ${store} --accounts ${file(tokens)} --json`, { env });
  expect(JSON.parse(all.stdout)).toMatchObject({ checked: 2, accounts: { checked: 2, failed: 0 } });
  expect(await opened.snapshotOf("a17/listing:7")).toBeDefined();
  expect(await opened.snapshotOf("b2/listing:7")).toBeDefined();
  expect(await opened.snapshotOf("listing:7")).toBeUndefined();
  const wrong = file({ ...tokens, b2: "revoked" });
  const partly = await cli(`reconcile --store ${store} --accounts ${wrong}`, { env });
  expect(partly.code).toBe(1);
  expect(partly.stderr).toContain("1 of 2 accounts could not be read");
  expect(partly.stderr + partly.stdout).not.toContain("revoked");
});

test("a wrong --account or --accounts says what is wrong, without a token", async () => {
  const { file, env, ofOne, store } = await platform();
  for (const [line, told] of [
    ["--account a/b", "--account must be the id"],
    ["--account a17 --accounts x.json", "not both"],
    [`--accounts ${file('{ "a17": "secret-token"')}`, "is not JSON"],
    [`--accounts ${join(store, "none.json")}`, "could not be read"],
  ] as const) {
    const { code, stderr } = await cli(`reconcile --store ${store} ${line}`, { env: ofOne });
    expect(code).toBeGreaterThan(1);
    expect(stderr).toContain(told);
    expect(stderr).not.toContain("secret-token");
  }
  const { stderr } = await cli(`reconcile --store ${store} --account a17`, { env });
  expect(stderr).toContain("STAYHOOK_ACCESS_TOKEN");
});

test("config --account reads and writes the configuration of the account; ensure tells what it replaced", async () => {
  const { sandbox, ofOne } = await platform();
  const ensure = (url: string) => cli(`config ensure --account a17 --to ${url} --json`, { env: ofOne });
  expect((await ensure("http://127.0.0.1:9/hooks?key=very-secret-key")).code).toBe(0);
  const replaced = await ensure("http://127.0.0.2:9/hooks");
  expect(JSON.parse(replaced.stdout)).toMatchObject({
    action: "updated",
    previous: { endpoints: { bookings: expect.stringContaining("127.0.0.1:9/hooks") } },
  });
  expect(replaced.stderr).toContain("replaced the URLs of another host");
  expect(replaced.stderr + replaced.stdout).not.toContain("very-secret-key");
  expect(sandbox.account("a17").webhookConfig).toBeDefined();
  expect(sandbox.account("b2").webhookConfig).toBeUndefined();
});

test("doctor --account checks one account, and --accounts each of a file", async () => {
  const { tokens, file, env, ofOne } = await platform();
  const states = (stdout: string) =>
    Object.fromEntries(
      JSON.parse(stdout).checks.map(({ check, state }: { check: string; state: string }) => [check, state]),
    );
  const one = await cli("doctor --account a17 --json", { env: ofOne });
  expect(states(one.stdout)).toMatchObject({ "a17: access token": "passed", "a17: configuration": "failed" });
  const all = await cli(`doctor --accounts ${file({ ...tokens, b2: "revoked" })} --json`, { env });
  expect(all.code).not.toBe(0);
  expect(states(all.stdout)).toMatchObject({ "a17: access token": "passed", "b2: access token": "failed" });
});
