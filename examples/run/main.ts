// npm run example <name> starts an example with a sandbox, plays a listing and two bookings there, and shows the
// example's output. No account is needed.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSandbox } from "stayhook/testing";
import { names } from "./commands.ts";
import { launch } from "./launch.ts";
import { play } from "./play.ts";
import { playVendor, vendorAccounts, vendorEnvironment } from "./play-vendor.ts";

const name = process.argv[2] ?? "";
if (!names().includes(name)) {
  if (name !== "")
    console.error(`${name} cannot be shown by this command; its first lines say how to run it.`);
  console.error(`npm run example <name>: ${names().join(", ")}`);
  process.exit(1);
}
const temporary = mkdtempSync(join(tmpdir(), "stayhook-example-"));
process.once("exit", () => rmSync(temporary, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

const isVendor = name === "vendor";
const sandbox = createSandbox({ delivery: { duplicates: 1 }, ...(isVendor && { accounts: vendorAccounts }) });
await sandbox.listen();
const example = await launch(name, sandbox, temporary, isVendor ? vendorEnvironment : {});
if (isVendor) await playVendor(sandbox, example.url);
else await play(sandbox, example.hooks);
await example.stop();
await sandbox.close();
if (sandbox.deliveries.some(({ status }) => status !== 200)) process.exitCode = 1;
