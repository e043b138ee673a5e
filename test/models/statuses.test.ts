import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { missingPlaces, withStatuses } from "../../tools/status-places.ts";

const file = join(import.meta.dirname, "../../docs/events.md");

test("docs/events.md has a row for each status: STAYHOOK_UPDATE_FIELDS=1 writes it", () => {
  const page = withStatuses(readFileSync(file, "utf8"));
  if (process.env.STAYHOOK_UPDATE_FIELDS === "1") writeFileSync(file, page);
  expect(readFileSync(file, "utf8")).toBe(page);
});

test("every place knows the statuses of the table", () => {
  expect(missingPlaces()).toEqual([]);
});
