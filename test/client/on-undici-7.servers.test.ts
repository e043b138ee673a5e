// The tests of the client and of `undiciFetch` once more, with version 7 of undici.

import { vi } from "vitest";

vi.mock("undici", () => import("undici7"));

await import("./undici-fetch.test.ts");
await import("./on-undici.test.ts");
