// The tests of the client that depend on what sends its requests, once more on `undiciFetch`: they run through the same
// `clientOf`. A soak plays all tests of the client.

import { readdirSync } from "node:fs";
import { afterAll, beforeAll, describe, vi } from "vitest";
import { undiciFetch } from "../../src/client/undici-fetch.ts";
import { isSoak } from "../support/soak.ts";
import { transport } from "./support.ts";

// Files share a worker's modules. One that has run there already would add no tests when it is imported again.
vi.hoisted(() => vi.resetModules());
afterAll(() => void vi.resetModules());

beforeAll(() => {
  transport.fetch = undiciFetch();
});
afterAll(() => {
  transport.fetch = undefined;
});

const played = isSoak
  ? /^(?!.*undici).*\.test\.ts$/
  : /^(errors|redirects|retries|sending|timeouts)\.test\.ts$/;
const files = readdirSync(import.meta.dirname).filter((name) => played.test(name));
for (const file of files) describe(file, () => import(/* @vite-ignore */ `./${file}`));
