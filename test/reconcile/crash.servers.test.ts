import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { sqliteStore } from "stayhook/sqlite";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { machineOf, readsOf, startSandbox, stateIn, statusesAt, statusesIn } from "./support.ts";

test("after a kill -9, another process continues the pass at its checkpoint, and no callback runs twice", async () => {
  const directory = temporaryFolder();
  const path = join(directory, "events.db");
  const store = sqliteStore(path);
  onTestFinished(() => store.close());
  const sandbox = await startSandbox();
  const machine = machineOf(sandbox, store as never);
  const codes = Array.from({ length: 40 }, (_, n) => `C${n + 100}`);
  for (const bookingCode of codes) {
    await sandbox.bookings.create({ bookingCode, status: "Request" });
    await machine.notify({ bookingCode });
  }
  await machine.webhooks.drain();
  for (const code of codes) await sandbox.bookings.approve(code);
  const reads = readsOf(sandbox);
  reads();

  const lease = 600;
  sandbox.faults.set([{ route: "GET /v2/bookings/{bookingCode}", delay: 60 }]);
  const args = { path, baseUrl: sandbox.url, accessToken: sandbox.accessToken, lease };
  const child = fork(join(import.meta.dirname, "crashing.ts"), [JSON.stringify(args)], { stdio: "pipe" });
  onTestFinished(() => void child.kill("SIGKILL"));
  const placeOf = async () => (await stateIn(store as never))?.after;
  await eventually(async () => expect(await placeOf()).toMatch(/C1(0[5-9]|[1-3])/));
  child.kill("SIGKILL");
  await once(child, "exit");
  sandbox.faults.clear();
  const before = new Set(reads().map((read) => read.split("/").at(-1)));
  const place = (await placeOf())!.slice("booking:".length);

  // No other process can run a pass until the lease of the dead process expires.
  const report = await eventually(async () => {
    const made = await machine.reconciler.run();
    expect(made.incomplete).toBeUndefined();
    return made;
  });
  await machine.webhooks.drain();
  expect(report.failed).toBe(0);
  expect(report.checked).toBe(codes.filter((code) => code > place).length);
  expect(before.size).toBeLessThan(40);
  expect(await statusesIn(store as never)).toEqual(statusesAt(sandbox));
  const approved = machine.told.filter(({ status }) => status === "Confirmed");
  expect(approved.map(({ record }) => record).toSorted()).toEqual(codes);
  expect(new Set(approved.map(({ changed }) => changed))).toEqual(new Set([true]));
});
