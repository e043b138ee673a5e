import { expect, test } from "vitest";
import { cli, platform } from "./support.ts";

test("listings prints all listings, or those with --status", async () => {
  const { sandbox, env } = await platform();
  await sandbox.listings.create({ listingId: 1, listingName: "A", status: "Hidden" });
  await sandbox.listings.create({ listingId: 2, listingName: "B", status: "Published", beds: 3 });
  const all = JSON.parse((await cli(["listings", "--json"], { env })).stdout);
  expect(all).toMatchObject([{ listingId: 1 }, { listingId: 2, beds: 3 }]);
  expect((await cli(["listings", "--status", "Gone"], { env })).stdout).toBe("");
  const { stdout } = await cli(["listings", "--status", "Published"], { env });
  expect(stdout).toBe("2\tPublished\tB\n");
});

test("listings warns on stderr of a list that may have further pages", async () => {
  const { sandbox, env } = await platform({ profile: { paging: "more", lists: "data" } });
  await sandbox.listings.create({ listingId: 1, listingName: "A", status: "Hidden" });
  const { code, stdout, stderr } = await cli(["listings"], { env });
  expect({ code, stdout }).toEqual({ code: 0, stdout: "1\tHidden\tA\n" });
  expect(stderr).toMatch(/^stayhook: the list of listings may be incomplete: .* hints at more pages/);
  expect(JSON.parse((await cli(["listings", "--json"], { env })).stderr)).toMatchObject({
    warning: { message: expect.stringContaining("more pages") },
  });
});

test("booking prints every field of the answer", async () => {
  const { sandbox, env } = await platform();
  const booking = await sandbox.bookings.request({ bookingCode: "HX3K9", guests: 2 });
  expect(JSON.parse((await cli(["booking", "HX3K9", "--json"], { env })).stdout)).toEqual(booking);
  const { stdout } = await cli(["booking", "HX3K9"], { env });
  expect(stdout).toContain("status\tRequest\n");
  expect(stdout).toContain("guests\t2\n");
});

test("booking ends with 4 for an unknown code, and with 2 for an empty one", async () => {
  const { env, sandbox } = await platform();
  expect(await cli(["booking", "NONE"], { env })).toMatchObject({ code: 4, stdout: "" });
  const asked = sandbox.requests.length;
  expect(await cli(["booking", ""], { env })).toMatchObject({ code: 2, stdout: "" });
  expect(sandbox.requests).toHaveLength(asked);
});
