// The tests of the client once more, on `undiciFetch`. They run through the same `clientOf`.

import { readdirSync } from "node:fs";
import { afterAll, beforeAll, describe } from "vitest";
import { undiciFetch } from "../../src/client/undici-fetch.ts";
import { transport } from "./support.ts";

beforeAll(() => {
  transport.fetch = undiciFetch();
});
afterAll(() => {
  transport.fetch = undefined;
});

const files = readdirSync(import.meta.dirname).filter((name) => /^(?!.*undici).*\.test\.ts$/.test(name));
for (const file of files) describe(file, () => import(/* @vite-ignore */ `./${file}`));
