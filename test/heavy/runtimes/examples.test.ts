import { expect, test } from "vitest";
import { driveBookingAndListing, expectRefusals, platform, post } from "../../examples/support/drive.ts";
import { startExample } from "../../examples/support/example.ts";
import { installed } from "../../package/support/consumer.ts";
import { runtimes } from "./runtimes.ts";

const project = await installed();

const examples = {
  "bun.ts": { runtime: runtimes.Bun!, permissions: [] },
  "deno.ts": { runtime: runtimes.Deno!, permissions: ["--allow-env"] },
};

test.for(Object.entries(examples))("%s", async ([from, how]) => {
  const { command, args } = how.runtime;
  const sandbox = await platform();
  const options = {
    project,
    sandbox,
    from,
    command: [command, ...args, ...how.permissions, from],
    env: { DENO_DIR: `${project.directory}/.deno`, NO_COLOR: "1" },
  };
  const first = await startExample(options);
  await driveBookingAndListing(sandbox, first);
  await expectRefusals(first);
  expect(await (await post(`${first.url}/echo`, '{"a":1}')).text()).toBe('{"a":1}');
  expect(await first.stop()).toEqual([0, null]);

  // The handled events are in the file, so a restart does not repeat them.
  const second = await startExample({ ...options, directory: first.directory });
  const [delivery] = sandbox.deliveries;
  expect(await sandbox.send(delivery?.notification, { url: second.hooks })).toMatchObject({ status: 200 });
  const other = await sandbox.bookings.create({ status: "Confirmed" });
  await sandbox.send(
    { eventId: crypto.randomUUID(), timestamp: "2026-05-01T12:00:00Z", bookingCode: other.bookingCode },
    { url: second.hooks },
  );
  await second.said(`block ${other.bookingCode}`);
  expect(second.output.match(/^(block|release) /gm)).toHaveLength(1);
  expect(await second.stop()).toEqual([0, null]);
});
