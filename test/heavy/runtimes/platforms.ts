import { createSandbox } from "../../../src/testing/index.ts";
import { whimsicalPlatform } from "./whimsical-platform.ts";

/** Starts the two platforms that a run of the probe uses, in this process. `await using` closes them. */
export async function platforms() {
  const whims = await whimsicalPlatform();
  const sandbox = createSandbox({ delivery: { duplicates: 1 } });
  await sandbox.listen();
  await sandbox.listings.create({ listingId: 101, listingName: "Loft", status: "Published" });
  for (const bookingCode of ["HX3K9", "HX3K1", "HX3K3", "HX3K5", "HX3K7"])
    await sandbox.bookings.create({ bookingCode, status: "Confirmed" });
  return {
    whims,
    sandbox,
    options: { baseUrl: sandbox.url, accessToken: sandbox.accessToken, whims: whims.url },
    async [Symbol.asyncDispose]() {
      whims.close();
      await sandbox.close();
    },
  };
}
