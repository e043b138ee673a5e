import { execFile } from "node:child_process";
import { copyFileSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { installed } from "../package/support/consumer.ts";
import { root } from "../package/support/pack.ts";
import { PATIENCE } from "../support/eventually.ts";
import { expectLines, platform, subscribe } from "./support/drive.ts";
import { startExample } from "./support/example.ts";

const project = await installed();

test("hears of what was changed while it was down, on the first pass of its next start", async () => {
  const sandbox = await platform();
  const { listingId } = await sandbox.listings.create({ status: "Published" });
  const first = await startExample({ project, sandbox, from: "reconcile.ts" });
  await first.said("checked 1, changed 0, failed 0");
  await subscribe(sandbox, first);
  const { bookingCode } = await sandbox.bookings.instantBook();
  await first.said(`block ${bookingCode}`);
  await sandbox.settled();
  expect(await first.stop()).toEqual([0, null]);

  const { directory } = first;
  await sandbox.bookings.cancel(bookingCode);
  await sandbox.listings.hide(listingId);
  await sandbox.settled();
  const once = await run(directory, sandbox.url, sandbox.accessToken);
  expect(once).toContain("checked 2, changed 2, failed 0");
  expectLines({ output: once }, [
    ["release", bookingCode],
    ["hidden", listingId],
  ]);
  expect(once.match(/ reconcile$/gm)).toHaveLength(2);

  // The last pass is less than a day old, so the process does not make another one.
  const second = await startExample({ project, sandbox, from: "reconcile.ts", directory });
  await subscribe(sandbox, second);
  const other = await sandbox.bookings.instantBook();
  await second.said(`block ${other.bookingCode}`);
  expect(second.output).not.toContain("checked");
  expect(await second.stop()).toEqual([0, null]);
});

test("as a cron job it ends by itself, and says by its exit code that not all could be read", async () => {
  const sandbox = await platform();
  const directory = mkdtempSync(join(project.directory, "reconcile-"));
  copyFileSync(join(root, "examples/reconcile.ts"), join(directory, "reconcile.ts"));
  expect(await run(directory, sandbox.url, sandbox.accessToken)).toBe("checked 0, changed 0, failed 0\n");
  const refused = run(directory, sandbox.url, "wrong token");
  await expect(refused).rejects.toMatchObject({ code: 1, stdout: "checked 0, changed 0, failed 1\n" });
});

/** Runs the example to its end, as cron does. */
async function run(directory: string, url: string, token: string): Promise<string> {
  const env = {
    ...process.env,
    STAYHOOK_BASE_URL: url,
    STAYHOOK_ACCESS_TOKEN: token,
    WEBHOOK_SECRET: "s3cret",
  };
  const { stdout } = await promisify(execFile)(process.execPath, ["reconcile.ts", "once"], {
    cwd: directory,
    env: { ...env, NODE_OPTIONS: "" },
    timeout: PATIENCE,
  });
  return stdout;
}
