// The tests of `undiciFetch` once more, with version 7 of undici. A soak adds all tests of the client, which version 8 passes.

import { vi } from "vitest";
import { isSoak } from "../support/soak.ts";

vi.mock("undici", () => import("undici7"));

await import("./undici-fetch.test.ts");
if (isSoak) await import("./on-undici.test.ts");
