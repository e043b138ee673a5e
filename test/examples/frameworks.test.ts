import { expect, test } from "vitest";
import { installed } from "../package/support/consumer.ts";
import { driveBookingAndListing, expectRefusals, platform, post } from "./support/drive.ts";
import { type ExampleOptions, PATIENCE, startExample } from "./support/example.ts";

const project = await installed(["ky", "uuid", "zod", "express"]);

/** Of each: how it is started, and a route of its own that goes through its body parser. */
const examples: Record<string, Omit<ExampleOptions, "project" | "sandbox" | "from">> = {
  "node-http.ts": {},
  "express.ts": {},
};

test.for(Object.entries(examples))("%s", { timeout: 2 * PATIENCE }, async ([from, options]) => {
  const sandbox = await platform();
  const example = await startExample({ ...options, project, sandbox, from });
  await driveBookingAndListing(sandbox, example);
  await expectRefusals(example);
  expect(await (await post(`${example.url}/echo`, '{"a":1}')).text()).toMatch(/^(Hello\n|\{"a":1\})$/);
  expect(await example.stop()).toEqual([0, null]);
});
